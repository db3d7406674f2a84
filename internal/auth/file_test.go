package auth_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/lancemaster/lancemaster/internal/auth"
	"github.com/lancemaster/lancemaster/internal/await"
	"github.com/lancemaster/lancemaster/internal/job"
)

func hashHex(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func tokenLine(name, role, text string) string { return name + " " + role + " " + hashHex(text) }

func writeFile(t *testing.T, lines ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tokens")
	rewrite(t, path, lines...)
	return path
}

func rewrite(t *testing.T, path string, lines ...string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
}

func openFile(t *testing.T, lines ...string) *auth.TokenFile {
	t.Helper()
	f, err := auth.OpenTokenFile(writeFile(t, lines...), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

func TestTokensOfAFile(t *testing.T) {
	first, second := auth.NewToken(), auth.NewToken()
	f := openFile(t, "# the first tokens", "", "  "+tokenLine("root", "admin", first), "ci\tsubmit\t"+strings.ToUpper(hashHex(second)), "")
	var r registry
	third := r.add("root", job.RoleRead) // a name of its own: the file's root is another
	a := newAuth(t, auth.Config{Registry: r.tokens, File: f})
	for text, want := range map[string]auth.Principal{
		first:  {Name: "root", Role: job.RoleAdmin, Verified: true},
		second: {Name: "ci", Role: job.RoleSubmit, Verified: true},
		third:  {Name: "root", Role: job.RoleRead, Verified: true, Token: hashOf(t, third)},
	} {
		if got, err := a.Authenticate(t.Context(), home, nil, text); err != nil || got != want {
			t.Errorf("got %+v, %v, want %+v", got, err, want)
		}
	}
	var none *auth.TokenFile
	if none.Tokens() != nil || none.Close() != nil {
		t.Error("no file holds something")
	}
}

func TestLinesThatAreRefused(t *testing.T) {
	good := tokenLine("root", "admin", auth.NewToken())
	many := make([]string, 0, job.MaxTokens+1)
	for i := range job.MaxTokens + 1 {
		many = append(many, tokenLine(fmt.Sprint("t", i), "read", fmt.Sprint(i)))
	}
	for _, tc := range []struct {
		name  string
		lines []string
		want  string
	}{
		{"two parts", []string{good, "", "root admin"}, "line 3: a line is NAME ROLE SHA256HEX"},
		{"four parts", []string{good + " x"}, "line 1: a line is"},
		{"a role", []string{"root root " + hashHex("x")}, "the role is not read"},
		{"a short hash", []string{"root admin abcd"}, "not 64 hexadecimal digits"},
		{"a token for a hash", []string{"root admin " + auth.NewToken()}, "never the token itself"},
		{"a name twice", []string{good, tokenLine("root", "read", "y")}, "line 2: the name is on an earlier line too"},
		{"a hash twice", []string{tokenLine("a", "read", "y"), tokenLine("b", "admin", "y")}, "line 2: the hash is on an earlier line too"},
		{"the master's name", []string{tokenLine(job.ActorSystem, "admin", "y")}, "the master acts under that name itself"},
		{"a name that looks like the master's", []string{tokenLine(job.ActorSystem+"\u200b", "admin", "y")}, "the name is not"},
		{"a name as of nobody", []string{tokenLine("unverified:ada", "admin", "y")}, "nothing vouches for"},
		{"a long name", []string{tokenLine(strings.Repeat("n", 129), "admin", "y")}, "the name is not"},
		{"a name that steers a terminal", []string{tokenLine("a\x1bb", "admin", "y")}, "the name is not"},
		{"too many", many, "more than 256"},
		{"a huge file", []string{strings.Repeat("#", 256<<10+1)}, "larger than"},
	} {
		f, err := auth.OpenTokenFile(writeFile(t, tc.lines...), nil, nil)
		if err == nil {
			_ = f.Close()
			t.Errorf("%s: accepted", tc.name)
			continue
		}
		if !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want %q", tc.name, err, tc.want)
		}
	}
	if _, err := auth.OpenTokenFile(t.TempDir(), nil, nil); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a directory: got %v", err)
	}
}

// The file is looked at from time to time; what cannot be read changes nothing and is said once.
func TestTheFileIsWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := writeFile(t, tokenLine("one", "read", "1"))
		var said strings.Builder
		registry := prometheus.NewRegistry()
		metrics, err := auth.NewFileMetrics(registry)
		if err != nil {
			t.Fatal(err)
		}
		f, err := auth.OpenTokenFile(path, slog.New(slog.NewTextHandler(&said, nil)), metrics)
		if err != nil {
			t.Fatal(err)
		}
		succeeded := func(want int) {
			t.Helper()
			text := fmt.Sprintf(`
# HELP lancemaster_tokens_file_reload_success 1 when the file of admin.tokens_file was last read it could be used, else 0: the tokens of before stay valid, those taken out of it since too.
# TYPE lancemaster_tokens_file_reload_success gauge
lancemaster_tokens_file_reload_success %d
`, want)
			if err := testutil.GatherAndCompare(registry, strings.NewReader(text)); err != nil {
				t.Error(err)
			}
		}
		succeeded(1)
		names := func() string {
			var out []string
			for _, tok := range f.Tokens() {
				out = append(out, tok.Name)
			}
			return strings.Join(out, " ")
		}
		wait := func(d time.Duration) {
			await.Pass(d)
			synctest.Wait()
		}
		rewrite(t, path, tokenLine("one", "read", "1"), tokenLine("two", "read", "2"))
		wait(29 * time.Second)
		if got := names(); got != "one" {
			t.Errorf("before the interval: %s", got)
		}
		wait(2 * time.Second)
		if got := names(); got != "one two" {
			t.Errorf("after the interval: %s", got)
		}
		rewrite(t, path, "rubbish")
		wait(time.Hour)
		if got := names(); got != "one two" {
			t.Errorf("with a broken file: %s", got)
		}
		succeeded(0)
		const kept = "the tokens of before stay valid, those taken out of it since too"
		if n := strings.Count(said.String(), "cannot load the changed token file"); n != 1 || !strings.Contains(said.String(), kept) {
			t.Errorf("the fault was logged %d times: %s", n, said.String())
		}
		if err := f.Reload(); err == nil || !strings.Contains(err.Error(), kept) {
			t.Errorf("got %v", err)
		}
		rewrite(t, path, tokenLine("one", "read", "1"), tokenLine("two", "read", "2")) // as it was
		wait(time.Minute)
		succeeded(1)
		if n := strings.Count(said.String(), "the token file can be used again"); n != 1 {
			t.Errorf("the end of the fault was logged %d times", n)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if err := f.Reload(); err == nil || names() != "one two" {
			t.Errorf("without the file: %v, %s", err, names())
		}
		succeeded(0)
		rewrite(t, path) // nobody any more
		if err := f.Reload(); err != nil || names() != "" {
			t.Errorf("emptied: %v, %s", err, names())
		}
		succeeded(1)
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		rewrite(t, path, tokenLine("one", "read", "1"))
		wait(time.Hour)
		if got := names(); got != "" {
			t.Errorf("read after Close: %s", got)
		}
	})
}

func TestAFileThatOthersMayChangeIsWarnedOf(t *testing.T) {
	path := writeFile(t, tokenLine("one", "read", "1"))
	for mode, want := range map[os.FileMode]bool{0o600: false, 0o644: false, 0o620: true, 0o602: true} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		var said strings.Builder
		f, err := auth.OpenTokenFile(path, slog.New(slog.NewTextHandler(&said, nil)), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		if got := strings.Contains(said.String(), "could make themselves admin"); got != want {
			t.Errorf("mode %v: warned: %v, want %v", mode, got, want)
		}
	}
}

// A mode may change while what the file holds does not.
func TestAFileThatIsOpenedToOthersLaterIsWarnedOf(t *testing.T) {
	path := writeFile(t, tokenLine("one", "read", "1"))
	var said strings.Builder
	f, err := auth.OpenTokenFile(path, slog.New(slog.NewTextHandler(&said, nil)), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}()
	warned := func(want int) {
		t.Helper()
		if err := f.Reload(); err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(said.String(), "could make themselves admin"); got != want {
			t.Errorf("warned %d times, want %d", got, want)
		}
	}
	warned(0)
	for _, step := range []struct {
		mode os.FileMode
		want int
	}{{0o620, 1}, {0o620, 1}, {0o600, 1}, {0o602, 2}} {
		if err := os.Chmod(path, step.mode); err != nil {
			t.Fatal(err)
		}
		warned(step.want)
	}
	rewrite(t, path, tokenLine("two", "read", "2")) // keeps the mode
	warned(3)
}
