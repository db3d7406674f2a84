package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/lancemaster/lancemaster/internal/client/clienttest"
	"github.com/lancemaster/lancemaster/internal/config"
)

// TestExitStatusOfWaits is the table that scripts count on.
func TestExitStatusOfWaits(t *testing.T) {
	const create = "index create x --catalog local --table demo.items --dataset file:///x --column vec --type btree --wait"
	for _, tt := range []struct {
		command string
		steps   []string
		want    int
	}{
		{"job wait 1", nil, exitOK},
		{"job wait 2", nil, exitUnknown},
		{"job wait 3", nil, exitNotCommitted},
		{"job wait 6", nil, exitOK}, // nothing to do
		{"job wait 7", nil, exitUnknown},
		{"job wait 1 --for=resolved", nil, exitOK},
		{"job wait 3 --for=resolved", nil, exitNotCommitted},
		{"job wait 7 --for=resolved", nil, exitUnknown}, // force-released: resolved, and still unknown
		{"job wait 2 --for=resolved --timeout 50ms", nil, exitTimedOut},
		{"job wait 4 --timeout 50ms", nil, exitTimedOut},
		{"job wait 4", []string{"COMMITTED"}, exitOK},
		{"job wait 4", []string{"NOT_COMMITTED"}, exitNotCommitted},
		{"job wait 4", []string{"UNKNOWN"}, exitUnknown},
		{"job wait 4", []string{"NOOP"}, exitOK},
		{"job wait 4 --for=resolved --timeout 50ms", []string{"COMMITTED"}, exitTimedOut},
		{"job wait 4 --for=resolved", []string{"COMMITTED", "REFRESHED"}, exitOK},
		{"job wait 99", nil, exitFailed},
		{"job wait x", nil, exitUsage},
		{create, []string{"RUNNING", "COMMITTED"}, exitOK},
		{create, []string{"NOOP"}, exitOK},
		{create, []string{"NOT_COMMITTED"}, exitNotCommitted},
		{create, []string{"UNKNOWN"}, exitUnknown},
		{create + " --timeout 50ms", []string{"RUNNING"}, exitTimedOut},
		{create + " --for=resolved --timeout 50ms", []string{"UNKNOWN"}, exitTimedOut},
		{create + " --for=never", nil, exitUsage},
	} {
		s := newSession(t)
		id := int64(4)
		if strings.HasPrefix(tt.command, "index") {
			id = 8
		}
		s.server.Next(id, tt.steps...)
		if got, _, errs := s.lancemaster(t, words(tt.command)...); got != tt.want {
			t.Errorf("%s after %v exits with %d, want %d\n%s", tt.command, tt.steps, got, tt.want, errs)
		}
	}
}

// eachCommand visits every command that a user can run.
func eachCommand(t *testing.T, f func(cmd *cobra.Command, path []string)) {
	t.Helper()
	a := &cli{Streams: Streams{In: strings.NewReader(""), Out: &bytes.Buffer{}, Err: &bytes.Buffer{}}}
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		f(cmd, strings.Fields(cmd.CommandPath())[1:])
		for _, c := range cmd.Commands() {
			if !c.Hidden {
				visit(c)
			}
		}
	}
	visit(a.root())
}

const everyCommand = `
backend,backend add,backend drain,backend list,backend remove,backend undrain,
catalog,catalog create,catalog list,catalog remove,catalog show,catalog update,
cluster,cluster add,cluster recover,cluster remove,cluster reopen,cluster replace,cluster status,cluster transfer-leader,
completion,config,config check,config show,dataset,dataset inspect,dev,doctor,health,help,index,index create,index drop,index list,
job,job cancel,job explain,job force-release,job history,job list,job release-slot,job show,job wait,job watch,
serve,settings,settings get,settings history,settings list,settings reset,settings set,
snapshot,snapshot inspect,snapshot restore,snapshot save,tls,tls ca,tls cert,token,token create,token list,token revoke,version`

// TestHelp: every command says what it does, how it exits, and how it is used.
func TestHelp(t *testing.T) {
	seen := map[string]bool{}
	eachCommand(t, func(cmd *cobra.Command, path []string) {
		name := strings.Join(path, " ")
		seen[name] = true
		status, out, errs := newSession(t).lancemaster(t, append(path, "--help")...)
		if status != exitOK || errs != "" {
			t.Fatalf("%s --help exits with %d: %s", name, status, errs)
		}
		want := []string{cmd.Long, "Usage:", "Exit status: 0 ", "1 ", "2 wrong usage"}
		if cmd.Name() != "help" {
			want = append(want, "Examples:", "lancemaster "+name)
		}
		switch name {
		case "job wait", "index create", "index drop":
			want = append(want, "0 committed or nothing to do", "3 not committed", "4 unknown", "5 timed out", "without limit")
		}
		for _, w := range want {
			if !strings.Contains(out, w) {
				t.Errorf("the help of %q lacks %q", name, w)
			}
		}
		if cmd.Short == "" || strings.HasSuffix(cmd.Short, ".") || len(cmd.Short) > 90 {
			t.Errorf("the short help of %q is %q", name, cmd.Short)
		}
		for line := range strings.SplitSeq(out, "\n") {
			if strings.TrimRight(line, " \t") != line {
				t.Errorf("the help of %q has a line with blanks at its end: %q", name, line)
			}
		}
		for line := range strings.SplitSeq(cmd.Long+"\n"+cmd.Example, "\n") {
			if len(line) > 120 {
				t.Errorf("the help of %q has a line of %d characters: %s", name, len(line), line)
			}
		}
	})
	for _, name := range strings.FieldsFunc(everyCommand, func(r rune) bool { return r == '\n' || r == ',' }) {
		if !seen[name] {
			t.Errorf("there is no command %q", name)
		}
		delete(seen, name)
	}
	for name := range seen {
		if name != "" {
			t.Errorf("the command %q is not in the list of this test", name)
		}
	}
}

// TestConfigurationFile: what the help of serve shows is a file of the defaults.
func TestConfigurationFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lancemaster.yaml")
	if err := os.WriteFile(path, []byte(configurationFile()), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := config.Load(path, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	want, err := config.Load("", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for key, source := range got.Sources {
		if source != config.SourceFile {
			t.Errorf("%s is not in it", key)
		}
	}
	got.Sources, want.Sources, want.File = nil, nil, path
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}

// TestExamples: the flags that the examples use are there.
func TestExamples(t *testing.T) {
	eachCommand(t, func(cmd *cobra.Command, path []string) {
		for line := range strings.SplitSeq(strings.ReplaceAll(cmd.Example, "\\\n", " "), "\n") {
			_, line, found := strings.Cut(line, "lancemaster ")
			if !found || strings.Contains(cmd.Example, "<(") {
				continue
			}
			args := words(strings.Split(line, " > ")[0])
			target, rest, err := cmd.Root().Find(args)
			if err != nil || target == cmd.Root() {
				t.Errorf("example of %q: %q is no command: %v", strings.Join(path, " "), line, err)
				continue
			}
			if err := target.ParseFlags(rest); err != nil {
				t.Errorf("example of %q: %s: %v", strings.Join(path, " "), line, err)
			} else if err := target.ValidateRequiredFlags(); err != nil && target.Runnable() {
				t.Errorf("example of %q: %s: %v", strings.Join(path, " "), line, err)
			}
		}
	})
}

// TestFormsAgree: json and yaml hold the same.
func TestFormsAgree(t *testing.T) {
	for _, command := range []string{
		"job list", "job show 7", "job history 1", "index list --dataset file:///x", "dataset inspect file:///x --column vec",
		"catalog list", "catalog show lake", "backend list", "settings list", "settings get admission.enabled", "settings history",
		"cluster status", "cluster add x y:1", "cluster transfer-leader", "token list", "token create x --role read",
		"health", "version", "index create x --catalog c --table a.b --dataset file:///x --column vec --type btree --request-id r",
	} {
		s := newSession(t)
		_, asJSON, _ := s.lancemaster(t, words(command+" -o json")...)
		s2 := newSession(t)
		_, asYAML, _ := s2.lancemaster(t, words(command+" -o yaml")...)
		var j, y any
		// Both are read by the same decoder: JSON is YAML.
		if err := yaml.Unmarshal([]byte(strings.ReplaceAll(asJSON, s.addr, "MASTER")), &j); err != nil {
			t.Fatalf("%s: %v", command, err)
		}
		if err := yaml.Unmarshal([]byte(strings.ReplaceAll(asYAML, s2.addr, "MASTER")), &y); err != nil {
			t.Fatalf("%s: %v", command, err)
		}
		if j == nil || !reflect.DeepEqual(j, y) {
			t.Errorf("%s: json and yaml differ:\n%s\n%s", command, asJSON, asYAML)
		}
	}
}

func TestYAMLKeepsText(t *testing.T) {
	in := map[string]any{}
	for _, text := range []string{"yes", "no", "on", "null", "~", "", "12", "1e3", "12:30", "0x1f", "- a", "a: b", "# c", "two\nlines", "\x1b[31m", "é", " lead", "2026-03-01T12:00:00Z"} {
		in["k"+text] = text
	}
	in["int"], in["float"], in["bool"], in["null"], in["list"] = 1<<53+1, 1.5, true, nil, []any{}
	text, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	out, err := yamlOf(text)
	if err != nil {
		t.Fatal(err)
	}
	var back map[string]any
	if err := yaml.Unmarshal(out, &back); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(in, back) {
		t.Errorf("%v\nbecame\n%v", in, back)
	}
	if !strings.Contains(string(out), `kyes: "yes"`) {
		t.Errorf("yes is not quoted, which older parsers take for true:\n%s", out)
	}
}

func TestClean(t *testing.T) {
	for in, want := range map[string]string{
		"plain é 日本": "plain é 日本", "a\x1b[31mb": `a\x1b[31mb`, "a\nb\tc\x00": `a\nb\tc\x00`, "a\xffb": `a\xffb`,
		"a\u202eb": `a\u202eb`, "\ufffd": "\ufffd", "a\u00a0b": `a\u00a0b`,
	} {
		if got := clean(in); got != want {
			t.Errorf("clean(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestCallerIsNamed(t *testing.T) {
	s := newSession(t)
	s.lancemaster(t, "job", "list")
	s.env = []string{"USER=ada", "LANCEMASTER_CLIENT_NAME=grace"}
	s.lancemaster(t, "job", "list")
	s.lancemaster(t, "job", "list", "--client-name", "edsger")
	s.env = nil
	s.lancemaster(t, "job", "list")
	v := " " + config.BuildInfo().Version
	if got, want := s.server.Callers(), []string{"ada" + v, "grace" + v, "edsger" + v, "lancemaster" + v}; !reflect.DeepEqual(got, want) {
		t.Errorf("the callers were %q, want %q", got, want)
	}
}

func TestSeveralAddresses(t *testing.T) {
	s := newSession(t)
	s.addr = closedAddr(t) + "," + s.server.Addr()
	if status, _, errs := s.lancemaster(t, "job", "show", "1"); status != exitOK {
		t.Errorf("exit status %d: %s", status, errs)
	}
	// Health asks each by itself.
	status, out, _ := s.lancemaster(t, "health")
	if status != exitFailed || strings.Count(out, "\n") != 3 || !strings.Contains(out, "UNREACHABLE") || !strings.Contains(out, "master-1") {
		t.Errorf("exit status %d:\n%s", status, out)
	}
	other := clienttest.New(t)
	s.addr = s.server.Addr() + "," + other.Addr()
	if status, out, _ := s.lancemaster(t, "health"); status != exitOK {
		t.Errorf("exit status %d:\n%s", status, out)
	}
}

func TestHealthOverHTTP(t *testing.T) {
	status, text := http.StatusOK, "ready\n"
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/readyz" {
			status = http.StatusNotFound
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(text))
	}))
	defer h.Close()
	address := h.Listener.Addr().String()
	s := newSession(t)
	if code, out, _ := s.lancemaster(t, "health", "--http", address); code != exitOK || out != address+" is ready\n" {
		t.Errorf("exit status %d: %s", code, out)
	}
	status, text = http.StatusServiceUnavailable, "no leader\nsince 5s\x1b[0m"
	code, out, _ := s.lancemaster(t, "health", "--http", address)
	if want := address + ` is not ready: 503 Service Unavailable: no leader since 5s\x1b[0m` + "\n"; code != exitFailed || out != want {
		t.Errorf("exit status %d: %s", code, out)
	}
	if code, out, _ := s.lancemaster(t, "health", "--http", address, "-o", "json"); code != exitFailed || !strings.Contains(out, `"ready": false`) {
		t.Errorf("exit status %d: %s", code, out)
	}
	if code, _, errs := s.lancemaster(t, "health", "--http", closedAddr(t)); code != exitFailed || !strings.Contains(errs, "UNREACHABLE") {
		t.Errorf("exit status %d: %s", code, errs)
	}
}

func TestVersion(t *testing.T) {
	s := newSession(t)
	status, out, _ := s.lancemaster(t, "version")
	if b := config.BuildInfo(); status != exitOK || !strings.HasPrefix(out, "lancemaster "+b.Version+" (revision ") {
		t.Errorf("exit status %d: %s", status, out)
	}
	var b config.Build
	if _, out, _ = s.lancemaster(t, "version", "-o", "json"); json.Unmarshal([]byte(out), &b) != nil || b != config.BuildInfo() {
		t.Errorf("%s", out)
	}
}

func TestCompletion(t *testing.T) {
	s := newSession(t)
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		status, out, errs := s.lancemaster(t, "completion", shell)
		if status != exitOK || errs != "" || !strings.Contains(out, "lancemaster") || len(out) < 1000 {
			t.Errorf("%s: exit status %d, %d bytes: %s", shell, status, len(out), errs)
		}
	}
	for command, want := range map[string]string{
		"__complete job wait --for ":     "terminal\nresolved\n",
		"__complete index create --type": "--type",
		"__complete job list -o ":        "table\nwide\njson\nyaml\nname\n",
	} {
		args := strings.Split(command, " ")
		if _, out, _ := s.lancemaster(t, args...); !strings.HasPrefix(out, want) {
			t.Errorf("%s offers %q", command, out)
		}
	}
}

func TestRoot(t *testing.T) {
	args := os.Args // are not what it goes by
	os.Args = []string{"lancemaster", "nothing"}
	t.Cleanup(func() { os.Args = args })
	status, out, errs := newSession(t).lancemaster(t)
	if status != exitOK || errs != "" || !strings.Contains(out, "Available Commands") {
		t.Errorf("exit status %d: %s%s", status, out, errs)
	}
}

// TestOutputThatCannotBeWritten is a failure: a script must not take it for an
// empty list.
func TestOutputThatCannotBeWritten(t *testing.T) {
	s := newSession(t)
	var errs bytes.Buffer
	status := Run(t.Context(), []string{"job", "list"}, []string{"LANCEMASTER_ADDR=" + s.addr}, Streams{In: strings.NewReader(""), Out: full{}, Err: &errs})
	if status != exitFailed || !strings.Contains(errs.String(), "cannot write the output: disk full") {
		t.Errorf("exit status %d: %s", status, errs.String())
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestShellQuoted(t *testing.T) {
	for in, want := range map[string]string{"/a/b-c_d.lance": "/a/b-c_d.lance", "/a b": "'/a b'", "/it's": `'/it'\''s'`, "/$x": "'/$x'"} {
		if got := shellQuoted(in); got != want {
			t.Errorf("%q becomes %s, want %s", in, got, want)
		}
	}
}

func TestHostPort(t *testing.T) {
	for want, in := range map[string]string{"h:1": "h", "[::1]:1": "::1"} {
		if got := hostPort(in, 1); got != want {
			t.Errorf("%q", got)
		}
		if _, _, err := net.SplitHostPort(want); err != nil {
			t.Error(err)
		}
	}
}

// A word in backquotes in a flag's help becomes the name of its value, which a command in it must not.
func TestFlagsHaveValuesOfOneWord(t *testing.T) {
	eachCommand(t, func(cmd *cobra.Command, path []string) {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if name, _ := pflag.UnquoteUsage(f); strings.Contains(name, " ") {
				t.Errorf("%v: the value of --%s is called %q", path, f.Name, name)
			}
		})
	})
}
