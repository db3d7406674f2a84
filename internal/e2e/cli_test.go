//go:build e2e

package e2e

import (
	"encoding/json"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/lancemaster/lancemaster/internal/client"
)

func TestVersion(t *testing.T) {
	t.Parallel()
	r := runProgram(t, "lancemaster", nil, "version")
	if r.Code != 0 || !strings.HasPrefix(r.Stdout, "lancemaster ") {
		t.Errorf("version: %s", r)
	}
	r = runProgram(t, "lancemaster", nil, "version", "-o", "json")
	var v map[string]any
	if err := json.Unmarshal([]byte(r.Stdout), &v); r.Code != 0 || err != nil || len(v) == 0 {
		t.Errorf("version -o json: %v, %s", err, r)
	}
	if r := runProgram(t, "lanceworker-stub", nil, "--version"); r.Code != 0 || r.Stdout == "" {
		t.Errorf("lanceworker-stub --version: %s", r)
	}
}

// Completion scripts are what their shells can read, where the shell is installed.
func TestCompletion(t *testing.T) {
	t.Parallel()
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		r := runProgram(t, "lancemaster", nil, "completion", shell)
		if r.Code != 0 || len(r.Stdout) < 1000 {
			t.Errorf("completion %s: exit code %d, %d bytes, %s", shell, r.Code, len(r.Stdout), r.Stderr)
			continue
		}
		path, err := exec.LookPath(shell)
		if err != nil || shell == "powershell" {
			continue
		}
		check := exec.CommandContext(t.Context(), path, "-n")
		check.Stdin = strings.NewReader(r.Stdout)
		if out, err := check.CombinedOutput(); err != nil {
			t.Errorf("%s -n refuses its completion script: %v\n%s", shell, err, out)
		}
	}
	if r := runProgram(t, "lancemaster", nil, "completion", "csh"); r.Code != 2 {
		t.Errorf("completion csh: want exit code 2, %s", r)
	}
	r := runProgram(t, "lancemaster", nil, "__complete", "job", "wait", "1", "--for", "")
	if r.Code != 0 || !strings.Contains(r.Stdout, "terminal") || !strings.Contains(r.Stdout, "resolved") {
		t.Errorf("completing job wait --for: %s", r)
	}
}

// subcommand matches a line of a help's list of commands.
var subcommand = regexp.MustCompile(`(?m)^  ([a-z-]+) {2,}\S`)

// Every command has a help that says how it exits.
func TestHelp(t *testing.T) {
	t.Parallel()
	seen := 0
	var visit func(path []string)
	visit = func(path []string) {
		seen++
		r := runProgram(t, "lancemaster", nil, append(path, "--help")...)
		if r.Code != 0 || r.Stderr != "" {
			t.Errorf("%q --help: %s", path, r)
		}
		_, list, isGroup := strings.Cut(r.Stdout, "Available Commands:")
		if !isGroup {
			if !strings.Contains(strings.ToLower(r.Stdout), "exit status:") {
				t.Errorf("%q --help does not say how it exits:\n%s", path, r.Stdout)
			}
			return
		}
		list, _, _ = strings.Cut(list, "\n\n")
		for _, m := range subcommand.FindAllStringSubmatch(list, -1) {
			if m[1] != "help" {
				visit(append(append([]string(nil), path...), m[1]))
			}
		}
	}
	visit(nil)
	if seen < 30 {
		t.Errorf("only %d commands were found", seen)
	}
}

// Wrong usage is exit code 2, told on standard error, and reaches no master.
func TestUsage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ args, says string }{
		{"nope", "nope"},
		{"jbo list", "did you mean job"},
		{"job", "history"},
		{"job show", "JOB"},
		{"job show x", "x"},
		{"job show 1 2", "2"},
		{"job wait 1 --for=ever", "ever"},
		{"job wait 1 --timeout=soon", "soon"},
		{"job list -o xml", "xml"},
		{"job list --state FLYING", "FLYING"},
		{"job list --nope", "nope"},
		{"settings set admission.enabled", "="},
		{"index create i --catalog c", "required"},
		{"index create i --catalog c --table t --dataset /d --column c --type btree", "t"},
		{"index create i --catalog c --table d.t --dataset /d --column c --type btree --replace --if-not-exists", "exclude"},
		{"health --addr nowhere", "nowhere"},
		{"serve --nope", "nope"},
		{"serve extra", "extra"},
		{"dev --nope", "nope"},
	} {
		r := runProgram(t, "lancemaster", []string{"LANCEMASTER_ADDR=127.0.0.1:1"}, strings.Fields(c.args)...)
		if r.Code != 2 || r.Stdout != "" || !strings.Contains(r.Stderr, c.says) || !strings.Contains(r.Stderr, "lancemaster: ") {
			t.Errorf("lancemaster %s: want exit code 2 and %q on standard error, %s", c.args, c.says, r)
		}
	}
}

// The command reads what the tests so far have read over the wire.
func TestCommandReads(t *testing.T) {
	t.Parallel()
	m, b := withLocal(t)
	id := m.admit(createLocal(t, indexed, "New_One"))
	b.expectSend(id)
	var page client.JobPage
	for filter, want := range map[string]int{
		"--open": 1, "--open=false": 0, "--unresolved": 1, "--state=pending,running": 1, "--state=COMMITTED": 0, "--refresh=done": 0,
		"--catalog=local": 1, "--catalog=other": 0, "--index=NEW_ONE": 1, "--backend=1": 1, "--backend=2": 0, "--since=1h": 1,
		"--until=1h": 0, "--dataset=" + fixture(t, indexed): 1, "--dataset=/other": 0,
	} {
		page = client.JobPage{}
		m.cliJSON(&page, "job", "list", filter)
		if len(page.Jobs) != want {
			t.Errorf("job list %s lists %d jobs, want %d", filter, len(page.Jobs), want)
		}
	}
	var d client.Dataset
	m.cliJSON(&d, "dataset", "inspect", fixture(t, indexed), "--column", "VEC")
	if d.Version != 4 || d.Column != "vec" || len(d.Indexes) != 3 || len(d.Fields) != 3 || len(d.Fences) != 1 || d.Fences[0].JobID != id ||
		!strings.Contains(d.SchemaContract, `"vet":"float32"`) {
		t.Errorf("dataset inspect shows %+v", d)
	}
	out := m.cliOK("index", "list", "--dataset", fixture(t, indexed))
	for _, text := range []string{"Vec_IvfPq", "id_btree", "flag_bitmap", "new_one", "job 1"} {
		if !strings.Contains(out, text) {
			t.Errorf("index list does not show %q:\n%s", text, out)
		}
	}
	if out := m.cliOK("backend", "list"); !strings.Contains(out, "127.0.0.1") {
		t.Errorf("backend list shows\n%s", out)
	}
	var health struct {
		Ready bool `json:"ready"`
	}
	if m.cliJSON(&health, "health"); !health.Ready {
		t.Error("health does not say ready")
	}
	if out := m.cliOK("health", "--http", m.http); !strings.Contains(out, "ready") {
		t.Errorf("health --http shows %s", out)
	}
	checkRefused(t, m.cli("job", "show", "99"), "NOT_FOUND", "99")
	checkRefused(t, m.cli("catalog", "remove", "local"), "IN_USE")
	checkRefused(t, m.cli("backend", "remove", "1"), "IN_USE", "slot")
}

// The pages of the HTTP server.
func TestPages(t *testing.T) {
	t.Parallel()
	m, b := withLocal(t)
	b.expectSend(m.admit(createLocal(t, typed, "i")))
	m.untilMetric(`lancemaster_dispatches_total{class="accepted"}`, 1)
	for page, says := range map[string]string{"/livez": "ok", "/readyz": "ok"} {
		if code, body := m.getHTTP(page); code != 200 || !strings.Contains(body, says) {
			t.Errorf("%s answers %d %q", page, code, body)
		}
	}
	_, body := m.getHTTP("/metrics")
	for _, line := range []string{
		`(?m)^lancemaster_build_info\{.*version=.*\} 1$`, `(?m)^lancemaster_jobs\{.*RUNNING.*\} 1$`, `(?m)^lancemaster_dispatches_total\{class="accepted"\} 1$`,
		`(?m)^lancemaster_reports_total\{`, `(?m)^lancemaster_[a-z_]*apply[a-z_]*_bucket\{`,
	} {
		if !regexp.MustCompile(line).MatchString(body) {
			t.Errorf("/metrics has no line like %s", line)
		}
	}
	if strings.Contains(body, "typed.lance") || strings.Contains(body, `"i"`) {
		t.Error("/metrics has a locator or an index name")
	}
}
