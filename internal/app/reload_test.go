package app_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lancemaster/lancemaster/internal/app"
	"github.com/lancemaster/lancemaster/internal/client"
)

// A reload takes the files along that the configuration names: a token that was taken out of its file
// counts no more at once. Where a file is faulty, nothing of the configuration changes.
func TestAReloadIsWholeOrNothing(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), wait)
	defer cancel()
	dir := t.TempDir()
	file, token := filepath.Join(dir, "tokens"), "lm_"+base64.RawURLEncoding.EncodeToString(make([]byte, 32))
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	sum := sha256.Sum256([]byte(token))
	write("root admin " + hex.EncodeToString(sum[:]) + "\n")
	overrides := map[string]string{"data_dir": filepath.Join(dir, "data"), "admin.auth": "required", "admin.tokens_file": file}
	log, level := &lines{}, new(slog.LevelVar)
	a, err := app.New(load(t, overrides), app.Options{LogLevel: level, Logger: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := a.Stop(context.WithoutCancel(ctx)); err != nil {
			t.Error(err)
		}
	}()
	if err := errors.Join(a.Start(ctx), a.WaitReady(ctx)); err != nil {
		t.Fatal(err)
	}
	metrics := "http://" + a.Addrs().HTTP + "/metrics"
	succeeded := func() bool { return count(t, metrics, "lancemaster_config_last_reload_successful") == 1 }
	ofTokens := func() float64 { return count(t, metrics, "lancemaster_tokens_file_reload_success") }
	mayCall := func() error {
		c, err := client.New(client.Config{Addresses: []string{a.Addrs().Admin}, Token: token})
		if err != nil {
			return err
		}
		defer func() { _ = c.Close() }()
		_, err = c.Catalogs(ctx)
		return err
	}
	if err := mayCall(); err != nil {
		t.Fatal(err)
	}
	overrides["log.level"] = "debug"
	write("root admin nonsense\n")
	log.take()
	a.Reload(load(t, overrides), nil)
	if said := log.take(); succeeded() || level.Level() != slog.LevelInfo || !strings.Contains(said, "stays as it is") || !strings.Contains(said, "line 1: ") {
		t.Errorf("with a faulty token file the level is %v, and the log says %s", level.Level(), said)
	}
	if got := ofTokens(); got != 0 {
		t.Errorf("with a faulty token file its metric is %v", got)
	}
	if err := mayCall(); err != nil {
		t.Errorf("with a faulty token file the tokens of before do not count: %v", err)
	}

	write("# nobody\n")
	a.Reload(load(t, overrides), nil)
	if !succeeded() || ofTokens() != 1 || level.Level() != slog.LevelDebug {
		t.Errorf("after a reload without a fault the level is %v; %s", level.Level(), log.take())
	}
	if err := mayCall(); err == nil || !strings.Contains(err.Error(), "not known here") {
		t.Errorf("a token that is in the file no more: %v", err)
	}
}
