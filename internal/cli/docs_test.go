package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	inlineCommand = regexp.MustCompile("`(lancemaster [^`]*)`")
	shellComment  = regexp.MustCompile(`\s+# .*$`)
	substitution  = regexp.MustCompile(`\$\([^)]*\)`)
)

// commandsIn returns the commands of this program that a page shows, in blocks of shell
// and in the text.
func commandsIn(page string) []string {
	var out []string
	inShell := false
	page = strings.ReplaceAll(page, "\\\n", " ")
	var text strings.Builder
	for line := range strings.Lines(page) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "```"):
			inShell = !inShell && line == "```sh"
		case !inShell:
			text.WriteString(line + " ")
		case strings.HasPrefix(line, "lancemaster "):
			out = append(out, shellComment.ReplaceAllString(line, ""))
		}
	}
	for _, m := range inlineCommand.FindAllStringSubmatch(text.String(), -1) {
		out = append(out, m[1])
	}
	return out
}

// shellWords splits a command as a shell would, as far as the pages need it.
func shellWords(command string) []string {
	var out []string
	command = substitution.ReplaceAllString(command, "x")
	for i, part := range strings.Split(command, `"`) {
		if i%2 == 1 {
			out = append(out, part)
			continue
		}
		out = append(out, strings.Fields(part)...)
	}
	return out
}

// Every command that the documentation shows is one that this program has, with flags
// that it has.
func TestTheDocumentsCommandsExist(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, path := range append(pages, "../../README.md") {
		page, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, command := range commandsIn(string(page)) {
			args := shellWords(command)[1:]
			if strings.HasPrefix(command, "lancemaster_") || len(args) == 0 {
				continue
			}
			checked++
			found, rest, err := (&cli{}).root().Find(args)
			switch {
			case err != nil:
				t.Errorf("%s: %s: %v", filepath.Base(path), command, err)
				continue
			case found.HasSubCommands() && len(found.Flags().Args()) == 0 && len(rest) > 0 && !strings.HasPrefix(rest[0], "-"):
				t.Errorf("%s: %s: %s has no command %q", filepath.Base(path), command, found.CommandPath(), rest[0])
				continue
			}
			if err := found.ParseFlags(rest); err != nil && !strings.Contains(err.Error(), "help") {
				t.Errorf("%s: %s: %v", filepath.Base(path), command, err)
			}
		}
	}
	if checked < 50 {
		t.Errorf("only %d commands were found", checked)
	}
}

// Every block of commands on a page is run by CI or marked as an example.
func TestTheDocumentsCommandsAreRunOrMarked(t *testing.T) {
	script, err := os.ReadFile("../../.ci/readme.sh")
	if err != nil {
		t.Fatal(err)
	}
	listed := regexp.MustCompile(`for page in ([^;]+); do`).FindSubmatch(script)
	if listed == nil {
		t.Fatal(".ci/readme.sh names no pages any more")
	}
	run := strings.Fields(string(listed[1]))
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatal(err)
	}
	marked := 0
	for _, path := range append(pages, "../../README.md", "../../docs/model/README.md") {
		page, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		last := ""
		for number, line := range strings.Split(string(page), "\n") {
			switch {
			case !regexp.MustCompile("^ *```(sh|bash|shell|console)$").MatchString(line):
			case last == "<!-- example -->":
				marked++
			case !slices.Contains(run, strings.TrimPrefix(path, "../../")):
				t.Errorf("%s:%d: commands that CI does not run; run them there, or mark them with <!-- example -->", path, number+1)
			}
			last = strings.TrimSpace(line)
		}
	}
	if marked < 20 {
		t.Errorf("only %d blocks are marked", marked)
	}
}
