package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What is checked is said, also when that is nothing.
func TestConfigCheckSaysWhatItChecked(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	empty, full := write("empty.yaml", "# nothing\n"), write("full.yaml", "node_id: m1\n")
	const valid, nothing = "the configuration is valid\n", "nothing is configured: the defaults hold, which are valid\n"
	for _, tc := range []struct {
		args []string
		want string
	}{
		{nil, nothing},
		{[]string{"--config", empty}, empty + " sets no key\n" + nothing},
		{[]string{"--config", empty, "--node-id", "m1"}, empty + " sets no key\n" + valid},
		{[]string{"--config", full}, valid},
		{[]string{"--node-id", "m1"}, valid},
	} {
		if status, out, errs := newSession(t).lancemaster(t, append([]string{"config", "check"}, tc.args...)...); status != 0 || out != tc.want || errs != "" {
			t.Errorf("%q: %d, %q, %q", tc.args, status, out, errs)
		}
	}
	// Every fault in one go, those of keys beside those of values, and of what must fit.
	faulty := write("faulty.yaml", "nod_id: x\nlog: {level: loud}\nraft: {leader_lease: 9s, listen: '10.0.0.1:1'}\n")
	status, out, errs := newSession(t).lancemaster(t, "config", "check", "--config", faulty)
	if status != exitFailed || out != "" {
		t.Errorf("%d, %q", status, out)
	}
	for _, want := range []string{`did you mean "node_id"`, `"loud"`, "raft.leader_lease: 9s", "raft.trusted_network: true"} {
		if !strings.Contains(errs, want) {
			t.Errorf("%q is not said in %s", want, errs)
		}
	}
}
