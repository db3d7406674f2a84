package cli

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

// TestTheBackupPageIsOfThisBuild: each command on the page is there, with its flags. What they do is
// gone through by TestABackupIsRestored.
func TestTheBackupPageIsOfThisBuild(t *testing.T) {
	text, err := os.ReadFile("../../docs/backup.md")
	if err != nil {
		t.Fatal(err)
	}
	inside, command, seen := false, "", map[string]bool{}
	for line := range strings.SplitSeq(string(text), "\n") {
		line = strings.TrimSpace(line)
		switch {
		case line == "```sh":
			inside = true
		case line == "```":
			inside = false
		case inside:
			if command += line; strings.HasSuffix(command, "\\") {
				command = strings.TrimSuffix(command, "\\")
				continue
			}
			seen[checkCommand(t, command)] = true
			command = ""
		}
	}
	for _, name := range []string{
		"snapshot save", "snapshot inspect", "snapshot restore", "cluster recover", "cluster reopen", "cluster add", "serve",
		"job force-release", "settings set",
	} {
		if !seen["lancemaster "+name] {
			t.Errorf("the page has no example of %q", name)
		}
	}
}

// checkCommand refuses a command line that this build would, and returns the command.
func checkCommand(t *testing.T, line string) string {
	t.Helper()
	a := &cli{Streams: Streams{In: strings.NewReader(""), Out: &bytes.Buffer{}, Err: &bytes.Buffer{}}}
	args, ok := strings.CutPrefix(line, "lancemaster ")
	if !ok {
		t.Errorf("%q is another program's", line)
		return ""
	}
	cmd, rest, err := a.root().Find(words(strings.ReplaceAll(args, "$(date -u +%Y%m%dT%H%M%SZ)", "now")))
	if err != nil || !cmd.Runnable() {
		t.Errorf("%q is no command: %v", line, err)
		return ""
	}
	if err := cmd.ParseFlags(rest); err != nil {
		t.Errorf("%q: %v", line, err)
	} else if err := cmd.Args(cmd, cmd.Flags().Args()); err != nil {
		t.Errorf("%q: %v", line, err)
	}
	return cmd.CommandPath()
}
