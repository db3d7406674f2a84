package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lancemaster/lancemaster/internal/config"
)

// lines is a writer that tells of each write.
type lines struct {
	mu    sync.Mutex
	buf   bytes.Buffer
	wrote chan struct{}
}

func newLines() *lines { return &lines{wrote: make(chan struct{}, 1)} }

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case l.wrote <- struct{}{}:
	default:
	}
	return l.buf.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// await waits until the text is there.
func (l *lines) await(t *testing.T, text string, ended <-chan int) {
	t.Helper()
	limit := time.After(30 * time.Second)
	for !strings.Contains(l.String(), text) {
		select {
		case <-l.wrote:
		case status := <-ended:
			t.Fatalf("it ended with %d before it printed %q:\n%s", status, text, l)
		case <-limit:
			t.Fatalf("it has not printed %q:\n%s", text, l)
		}
	}
}

var anyPorts = []string{"--admin-listen", "127.0.0.1:0", "--report-listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0", "--raft-listen", "127.0.0.1:0"}

// TestDev starts a development node, runs what it says to try, and stops it.
func TestDev(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out, errs, ended := newLines(), newLines(), make(chan int, 1)
	args := append([]string{"dev", "--data", filepath.Join(t.TempDir(), "data"), "--stub-listen", "127.0.0.1:0", "--stub-heartbeat-listen", "127.0.0.1:0"}, anyPorts...)
	go func() { ended <- Run(ctx, args, nil, Streams{In: strings.NewReader(""), Out: out, Err: errs}) }()
	out.await(t, "Ctrl-C stops it.", ended)
	dataset, err := filepath.Abs("../../testdata/lance/typed.lance")
	if err != nil {
		t.Fatal(err)
	}
	s := &session{}
	tried := 0
	for line := range strings.SplitSeq(strings.ReplaceAll(out.String(), "\\\n", " "), "\n") {
		line = strings.TrimSpace(line)
		if v, ok := strings.CutPrefix(line, "export LANCEMASTER_ADDR="); ok {
			s.env = []string{"LANCEMASTER_ADDR=" + v}
		}
		command, ok := strings.CutPrefix(line, "lancemaster ")
		if !ok {
			continue
		}
		tried++
		want := exitOK
		if strings.Contains(command, "--wait") {
			want = exitNotCommitted
		}
		var stdout, stderr bytes.Buffer
		command = strings.ReplaceAll(command, "file:///path/to/a/dataset.lance", dataset)
		if got := Run(ctx, words(command), s.env, Streams{In: strings.NewReader(""), Out: &stdout, Err: &stderr}); got != want {
			t.Errorf("%s exits with %d, want %d\n%s%s", command, got, want, &stdout, &stderr)
		}
	}
	if tried != 4 {
		t.Errorf("%d commands to try, want 4:\n%s", tried, out)
	}
	cancel()
	if status := <-ended; status != exitOK {
		t.Errorf("it ended with %d:\n%s", status, errs)
	}
}

func TestDevAsJSON(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out, errs, ended := newLines(), newLines(), make(chan int, 1)
	args := append([]string{"dev", "-o", "json", "--data", filepath.Join(t.TempDir(), "data"), "--stub-listen", "127.0.0.1:0", "--stub-heartbeat-listen", "127.0.0.1:0"}, anyPorts...)
	go func() { ended <- Run(ctx, args, nil, Streams{In: strings.NewReader(""), Out: out, Err: errs}) }()
	out.await(t, "}\n", ended)
	var v devAddresses
	if err := json.Unmarshal([]byte(out.String()), &v); err != nil || v.Admin == "" || v.Stub == "" {
		t.Errorf("%v: %s", err, out)
	}
	cancel()
	if status := <-ended; status != exitOK {
		t.Errorf("it ended with %d:\n%s", status, errs)
	}
}

// TestServe takes its data directory from the file, its log format from the
// environment and its addresses from flags.
func TestServe(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	dir := t.TempDir()
	file := filepath.Join(dir, "lancemaster.yaml")
	if err := os.WriteFile(file, []byte("data_dir: "+filepath.Join(dir, "data")+"\nlog:\n  format: text\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := []string{"LANCEMASTER_CONFIG=" + file, "LANCEMASTER_LOG_FORMAT=json"}
	out, errs, ended := newLines(), newLines(), make(chan int, 1)
	go func() {
		ended <- Run(ctx, append([]string{"serve"}, anyPorts...), env, Streams{In: strings.NewReader(""), Out: out, Err: errs})
	}()
	errs.await(t, `"msg":"started"`, ended)
	if _, err := os.Stat(filepath.Join(dir, "data")); err != nil {
		t.Error(err)
	}
	cancel()
	if status := <-ended; status != exitOK || out.String() != "" {
		t.Errorf("it ended with %d: %s", status, out)
	}
}

func TestServeRefuses(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "bad.yaml")
	if err := os.WriteFile(file, []byte("data_dri: x\nlog:\n  level: loud\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args   []string
		status int
		says   []string
	}{
		{[]string{"serve", "--config", file}, exitFailed, []string{"lancemaster: " + file, "data_dri", "\nlancemaster: log.level", "loud"}},
		{[]string{"serve", "--config", filepath.Join(dir, "none")}, exitFailed, []string{"none"}},
		{[]string{"serve", "--addr", "x:1"}, exitUsage, []string{"--addr means nothing"}},
		{[]string{"serve", "-o", "json"}, exitUsage, []string{"--output means nothing"}},
		{[]string{"serve", "extra"}, exitUsage, []string{"extra"}},
		{[]string{"dev", "--addr", "x:1"}, exitUsage, []string{"--addr means nothing"}},
		{[]string{"dev", "--log-level", "loud"}, exitUsage, []string{"loud"}},
		{append([]string{"dev", "--data", file}, anyPorts...), exitFailed, []string{file}},
	} {
		status, out, errs := newSession(t).lancemaster(t, tt.args...)
		if status != tt.status || out != "" {
			t.Errorf("%q exits with %d, want %d: %s%s", tt.args, status, tt.status, out, errs)
		}
		for _, w := range tt.says {
			if !strings.Contains(errs, w) {
				t.Errorf("%q does not say %q: %s", tt.args, w, errs)
			}
		}
	}
}

// TestServeHasEveryKey: each key of the configuration is a flag.
func TestServeHasEveryKey(t *testing.T) {
	_, help, _ := newSession(t).lancemaster(t, "serve", "--help")
	for _, f := range config.Flags() {
		if !strings.Contains(help, "--"+f.Name+" ") {
			t.Errorf("serve has no flag --%s", f.Name)
		}
	}
}

// With a log of JSON all that a master says is JSON, also why it does not start.
func TestAFailedStartIsInTheLog(t *testing.T) {
	taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	busy := append([]string{"--data-dir", filepath.Join(t.TempDir(), "data")}, anyPorts...)
	busy = append(busy, "--http-listen", taken.Addr().String())
	for name, tc := range map[string]struct {
		args []string
		want []string
	}{
		"a port that is taken":            {busy, []string{"http.listen"}},
		"a faulty configuration":          {[]string{"--node-id", "a b", "--report-listen", "nowhere"}, []string{"node_id", "report.listen"}},
		"a file that is not there":        {[]string{"--backend-tls", "server", "--tls-ca-file", "/nothing/ca.crt", "--data-dir", filepath.Join(t.TempDir(), "data")}, []string{"/nothing/ca.crt"}},
		"a data directory that is a file": {append([]string{"--data-dir", "node_test.go"}, anyPorts...), []string{"node_test.go"}},
	} {
		status, out, errs := newSession(t).lancemaster(t, append([]string{"serve", "--log-format", "json"}, tc.args...)...)
		if status != exitFailed || out != "" {
			t.Errorf("%s: %d, %q", name, status, out)
		}
		var faults strings.Builder
		for line := range strings.Lines(errs) {
			var entry struct{ Level, Error string }
			if err := json.Unmarshal([]byte(line), &entry); err != nil {
				t.Errorf("%s: %q is no JSON", name, line)
			}
			if entry.Level == "ERROR" {
				faults.WriteString(entry.Error + "\n")
			}
		}
		for _, want := range tc.want {
			if !strings.Contains(faults.String(), want) {
				t.Errorf("%s: %q is not logged: %s", name, want, errs)
			}
		}
	}
	status, _, errs := newSession(t).lancemaster(t, "serve", "--node-id", "a b")
	if status != exitFailed || !strings.HasPrefix(errs, "lancemaster: node_id") {
		t.Errorf("with a log of text: %d, %s", status, errs)
	}
	if _, _, errs = newSession(t).lancemaster(t, "serve", "--log-format", "xml"); !strings.HasPrefix(errs, "lancemaster: log.format") {
		t.Errorf("with a format that is none: %s", errs)
	}
}
