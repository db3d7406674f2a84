//go:build e2e

package e2e

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/lancemaster/lancemaster/gen-go/admin"
	"github.com/lancemaster/lancemaster/gen-go/shared"
	"github.com/lancemaster/lancemaster/internal/scripted"
)

// The secrets that a node is given to use. None may be seen outside of what goes to the backend.
const (
	tokenSecret   = "canary-token-5d1b7c20"
	optionSecret  = "canary-option-93ae61f4"
	envSecret     = "canary-environment-2c88d0"
	refreshSecret = "canary-refresher-0f6a41be"
)

// No secret is stored, logged, exported as a metric or shown.
func TestCanary(t *testing.T) {
	t.Parallel()
	secrets := t.TempDir()
	tokenFile, optionFile := filepath.Join(secrets, "token"), filepath.Join(secrets, "option")
	refreshFile := filepath.Join(secrets, "refresh")
	for path, secret := range map[string]string{tokenFile: tokenSecret, optionFile: optionSecret, refreshFile: refreshSecret} {
		if err := os.WriteFile(path, []byte(secret+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b := newBackend(t)
	m := newMaster(t, "--backend-token", "file:"+tokenFile, "--log-level", "debug")
	m.env = []string{"CANARY=" + envSecret}
	m.start()
	m.set("admission.enabled", "true", "backend.heartbeat_interval", "200ms")
	refreshed := make(chan string, 100)
	refresher := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		refreshed <- r.Header.Get("Authorization")
		http.Error(w, "refused: "+r.Header.Get("Authorization"), http.StatusForbidden) // as a careless service does
	}))
	t.Cleanup(refresher.Close)
	m.putCatalog("remote", "store", &admin.TRefresher{Kind: "http", URL: &refresher.URL, PasswordRef: ptr("file:" + refreshFile)},
		&admin.TStorageOption{Key: "aws_secret_access_key", Ref: ptr("file:" + optionFile)},
		&admin.TStorageOption{Key: "aws_session_token", Ref: ptr("env:CANARY")},
		&admin.TStorageOption{Key: "region", Value: ptr("visible-region")})
	m.register(b)
	if got := b.masterInfo().GetToken(); got != tokenSecret {
		t.Fatalf("the heartbeat's token is %q, want the configured one", got)
	}

	known := []string{tokenSecret, optionSecret, envSecret, refreshSecret}
	for i, a := range []scripted.Answer{{}, {Cut: true}, {Status: shared.TStatusCode_CANCELLED, Text: "no"}} {
		b.Always(a)
		id := m.admit(createRemote("remote", "s3://bucket/t", fmt.Sprintf("i%d", i)))
		d := b.expectSend(id)
		if d.StorageOptions["aws_secret_access_key"] != optionSecret || d.StorageOptions["aws_session_token"] != envSecret {
			t.Fatal("the secrets did not reach the backend")
		}
		known = append(known, d.GetInvocationSecret())
		forged := scripted.ResultOf(d, shared.TLanceIndexResultCode_NATIVE_OK)
		forged.InvocationID += "x"
		if i < 2 {
			b.report(forged)
			b.report(scripted.ResultOf(d, shared.TLanceIndexResultCode_NATIVE_OK))
		}
		m.until(id, func(j *admin.TJob) string {
			if j.State < admin.TJobState_COMMITTED {
				return "it has not ended"
			}
			return ""
		})
	}

	select {
	case got := <-refreshed:
		if got != "Bearer "+refreshSecret {
			t.Fatalf("the refresher was authorized by %q", got)
		}
	case <-time.After(patience):
		t.Fatal("the refresher was never called")
	}
	m.until(1, func(j *admin.TJob) string {
		if j.Refresh.State != admin.TRefreshState_FAILED {
			return "the failed refresh is not on record"
		}
		return ""
	})

	look := func(where string, content []byte) {
		for _, secret := range known {
			for form, spelled := range spellings(secret) {
				if i := bytes.Index(content, spelled); i >= 0 {
					t.Errorf("%s holds a secret (%s)", where, form)
				}
			}
		}
	}
	for _, args := range [][]string{
		{"job", "list"}, {"job", "show", "1"}, {"job", "history", "1"}, {"catalog", "show", "remote"}, {"catalog", "list"},
		{"backend", "list"}, {"settings", "list"}, {"settings", "history"}, {"health"},
	} {
		for _, format := range []string{"table", "json", "yaml"} {
			look(fmt.Sprint(args), []byte(m.cliOK(append(args, "-o", format)...)))
		}
	}
	for _, page := range []string{"/metrics", "/livez", "/readyz"} {
		_, body := m.getHTTP(page)
		look(page, []byte(body))
	}
	if cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", m.proc.Pid())); err == nil {
		look("the command line", cmdline)
	}
	first := m.proc
	m.terminate()
	m.start() // what the journal makes at a start is looked at too
	m.kill()
	look("the log", []byte(first.Out()+m.proc.Out()))
	lookIntoFiles(t, m.dir, look)
}

func lookIntoFiles(t *testing.T, dir string, look func(string, []byte)) {
	t.Helper()
	seen := 0
	tree := os.DirFS(dir)
	err := fs.WalkDir(tree, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		content, err := fs.ReadFile(tree, path)
		if err != nil {
			return err
		}
		if bytes.Contains(content, []byte("visible-region")) {
			seen++ // the search sees what is there
		}
		look(path, content)
		if info, err := entry.Info(); err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s may be read by others: %s", path, info.Mode())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen < 2 {
		t.Errorf("%d files hold what is no secret, want journal and state; the search does not see into them", seen)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the data directory has mode %v, %v; want 0700", info.Mode(), err)
	}
}

// spellings are the forms in which a secret could be found.
func spellings(secret string) map[string][]byte {
	out := map[string][]byte{
		"as it is": []byte(secret),
		"hex":      []byte(hex.EncodeToString([]byte(secret))),
		"base64":   []byte(base64.RawStdEncoding.EncodeToString([]byte(secret))),
	}
	if raw, err := hex.DecodeString(secret); err == nil {
		out["decoded"] = raw
	}
	return out
}
