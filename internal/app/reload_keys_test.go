package app

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lancemaster/lancemaster/internal/config"
)

// alone starts a node of its own; change changes its configuration.
func alone(t *testing.T, overrides map[string]string, o Options) (a *App, change func(key, value string) config.Config) {
	t.Helper()
	overrides["data_dir"] = filepath.Join(t.TempDir(), "data")
	for _, key := range []string{"raft.listen", "admin.listen", "report.listen", "http.listen"} {
		overrides[key] = "127.0.0.1:0"
	}
	change = func(key, value string) config.Config {
		t.Helper()
		if key != "" {
			overrides[key] = value
		}
		cfg, err := config.Load("", nil, overrides)
		if err != nil {
			t.Fatal(err)
		}
		return cfg
	}
	a, err := New(change("", ""), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := errors.Join(a.Start(ctx), a.WaitReady(ctx)); err != nil {
		t.Fatal(err)
	}
	return a, change
}

// Each key that says that a reload changes it is changed by one, where it counts.
func TestEachReloadableKeyReloads(t *testing.T) {
	t.Parallel()
	level := new(slog.LevelVar)
	a, change := alone(t, map[string]string{}, Options{LogLevel: level})
	for _, flag := range config.Flags() {
		if !flag.Reload {
			continue
		}
		switch flag.Key {
		case "log.level":
			a.Reload(change(flag.Key, "error"), nil)
			if level.Level() != slog.LevelError {
				t.Errorf("%s is %v", flag.Key, level.Level())
			}
		case "cluster.members":
			a.Reload(change(flag.Key, "master-1=127.0.0.1:7001,master-2=127.0.0.1:7002"), nil)
			if at, ok := a.memberAddress("master-2"); !ok || at != "127.0.0.1:7002" {
				t.Errorf("%s: master-2 is at %q", flag.Key, at)
			}
		case "shutdown_timeout":
			a.Reload(change(flag.Key, "1h"), nil)
			var within time.Duration
			a.onStop("what looks at the time left", func(ctx context.Context) error {
				end, _ := ctx.Deadline()
				within = time.Until(end)
				return nil
			})
			if err := a.Stop(context.Background()); err != nil {
				t.Error(err)
			}
			if within < time.Minute {
				t.Errorf("%s: a stop has %s", flag.Key, within)
			}
		default:
			t.Errorf("nothing shows that %s reloads", flag.Key)
		}
	}
}

// told is what a logger has written.
type told struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *told) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *told) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// A configuration with which the next start is refused the data directory is none that a reload takes.
func TestAReloadKeepsTheNode(t *testing.T) {
	t.Parallel()
	level := new(slog.LevelVar)
	var said told
	a, change := alone(t, map[string]string{"node_id": "m1"}, Options{LogLevel: level, Logger: slog.New(slog.NewTextHandler(&said, nil))})
	own := a.cfg.DataDir
	foreign := t.TempDir()
	if _, err := openDataDir(foreign, "m2"); err != nil {
		t.Fatal(err)
	}
	change("log.level", "error")
	for _, tt := range []struct{ key, value, back, says string }{
		{"node_id", "m2", "m1", `it cannot change from \"m1\" to \"m2\"`},
		{"data_dir", foreign, own, `belongs to node \"m2\", not to \"m1\"`},
	} {
		a.Reload(change(tt.key, tt.value), nil)
		if a.reloadSucceeded(t) || level.Level() == slog.LevelError || a.current.Load().Values[tt.key] == tt.value || !strings.Contains(said.String(), tt.says) {
			t.Errorf("%s was reloaded as %s; it says %s", tt.key, tt.value, said.String())
		}
		change(tt.key, tt.back)
	}
	// The data may be moved to another directory before the next start.
	a.Reload(change("data_dir", filepath.Join(t.TempDir(), "moved")), nil)
	if !a.reloadSucceeded(t) || level.Level() != slog.LevelError {
		t.Errorf("a data directory that nobody has is refused: %s", said.String())
	}
}

// reloadSucceeded is what the metric says.
func (a *App) reloadSucceeded(t *testing.T) bool {
	t.Helper()
	families, err := a.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "lancemaster_config_last_reload_successful" {
			return f.GetMetric()[0].GetGauge().GetValue() == 1
		}
	}
	t.Fatal("there is no such metric")
	return false
}

// A reload that failed over a file only is made up for once the file is well, without another SIGHUP.
func TestAReloadWaitsForItsFiles(t *testing.T) {
	t.Parallel()
	tokens := filepath.Join(t.TempDir(), "tokens")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(tokens, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("# none\n")
	level := new(slog.LevelVar)
	var said told
	a, change := alone(t, map[string]string{"admin.tokens_file": tokens}, Options{LogLevel: level, Logger: slog.New(slog.NewTextHandler(&said, nil))})
	ok := func() bool { return a.reloadSucceeded(t) }
	write("faulty\n")
	a.Reload(change("log.level", "error"), nil)
	a.retryReload()
	if ok() || level.Level() != slog.LevelInfo {
		t.Errorf("with a faulty file the reload went well: %v, level %v", ok(), level.Level())
	}
	write("name norole hash\n")
	a.retryReload()
	a.retryReload()
	if n := strings.Count(said.String(), "still cannot be used"); n != 1 {
		t.Errorf("another fault than before was told %d times:\n%s", n, said.String())
	}
	write("# none again\n")
	a.retryReload()
	if !ok() || level.Level() != slog.LevelError {
		t.Errorf("with the file corrected the reload went well: %v, level %v", ok(), level.Level())
	}

	a.Reload(config.Config{}, errors.New("no configuration at all"))
	a.retryReload()
	if ok() {
		t.Error("a faulty configuration was made up for by its files")
	}
}
