// Command docs runs the commands of documentation pages exactly as they stand there, and holds what they
// print against what the page shows.
//
//	go run ./.ci/docs [-rewrite] [-tmp DIR] PAGE...
//
// Every block fenced as ```sh is run, in order, all of a page in one shell, which stops at the first
// command that fails. A block is only shown, not run, when the last line before it that is not empty is
//
//	<!-- example -->
//
// A block fenced as ```text right behind one that was run is its output, standard error included. It is
// compared line by line, in any order, since which master leads is not up to the page. Words with a digit
// in them (times, numbers, versions), a lone dash, and names of callers count as equal. A line of three dots stands for
// lines that are not shown. With -rewrite the outputs are written into the page instead, but for those
// with dots, which must be kept by hand.
//
// A page may leave no process behind; those that it does leave are ended. Its TMPDIR is a folder that is
// removed with all that is in it; with -tmp it is one that the caller has made and removes.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

const (
	pageLimit  = 9 * time.Minute
	leaveLimit = 20 * time.Second
	example    = "<!-- example -->"
	dots       = "..."
)

func main() {
	rewrite := flag.Bool("rewrite", false, "write what the commands print into the pages")
	tmp := flag.String("tmp", "", "the TMPDIR of the commands, instead of one that is removed")
	flag.Parse()
	failed := false
	for _, page := range flag.Args() {
		if err := runPage(page, *tmp, *rewrite); err != nil {
			fmt.Fprintf(os.Stderr, "docs: %s: %v\n", page, err)
			failed = true
		}
	}
	if failed || flag.NArg() == 0 {
		os.Exit(1)
	}
}

// block is one run of commands, and where the page shows its output: the lines [from, to), from 0 if it
// does not.
type block struct {
	line     int
	commands []string
	from, to int
}

func runPage(page, tmp string, rewrite bool) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	blocks, examples, err := parse(lines)
	if err != nil {
		return err
	}
	if len(blocks) == 0 {
		return errors.New("it has no block of commands to run")
	}
	outputs, runErr := run(page, tmp, blocks)
	var faults []error
	for n := len(outputs) - 1; n >= 0; n-- { // from the end, so that line numbers stay right
		b := blocks[n]
		if b.from == 0 {
			continue
		}
		want := lines[b.from:b.to]
		different := compare(want, outputs[n])
		switch {
		case different == nil:
		case rewrite && !slices.Contains(want, dots):
			lines = slices.Replace(lines, b.from, b.to, outputs[n]...)
		default:
			faults = append(faults, fmt.Errorf("line %d: %w", b.from+1, different))
		}
	}
	if err := errors.Join(append(faults, runErr)...); err != nil {
		return err
	}
	if rewrite {
		if err := os.WriteFile(page, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil { //nolint:gosec // a page of the repository is for all to read
			return err
		}
	}
	fmt.Printf("docs: %s: %d blocks of commands ran, %d are only examples\n", page, len(blocks), examples)
	return nil
}

func parse(lines []string) (blocks []block, examples int, err error) {
	last, follows := "", false // the last line with text; whether it closed a block that runs
	for n := 0; n < len(lines); n++ {
		line := strings.TrimRight(lines[n], " \t")
		if line == "" {
			continue
		}
		if !strings.HasPrefix(line, "```") {
			last, follows = line, false
			continue
		}
		end := n + 1
		for end < len(lines) && strings.TrimRight(lines[end], " \t") != "```" {
			end++
		}
		if end == len(lines) {
			return nil, 0, fmt.Errorf("line %d: the block is not closed", n+1)
		}
		switch {
		case line == "```sh" && last == example:
			examples++
			follows = false
		case line == "```sh":
			b := block{line: n + 1, commands: lines[n+1 : end]}
			for _, c := range b.commands {
				if strings.HasPrefix(c, "$ ") {
					return nil, 0, fmt.Errorf("line %d: a command begins with a prompt; write it alone", n+1)
				}
			}
			blocks, follows = append(blocks, b), true
		case line == "```text" && follows:
			blocks[len(blocks)-1].from, blocks[len(blocks)-1].to = n+1, end
			follows = false
		default:
			follows = false
		}
		n, last = end, "```"
	}
	return blocks, examples, nil
}

// run runs the blocks in one shell and returns what each printed.
func run(page, tmp string, blocks []block) (outputs [][]string, err error) {
	work, err := os.MkdirTemp("", "lancemaster-docs.")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, remove(work)) }()
	if tmp == "" {
		tmp = work
	}
	var script strings.Builder
	for n, b := range blocks {
		fmt.Fprintf(&script, "exec >%s 2>&1\n%s\n", filepath.Join(work, fmt.Sprintf("out.%d", n)), strings.Join(b.commands, "\n"))
	}
	file := filepath.Join(work, "commands.sh")
	if err := os.WriteFile(file, []byte(script.String()), 0o600); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), pageLimit)
	defer cancel()
	shell := exec.CommandContext(ctx, "bash", "-e", "-o", "pipefail", file) //nolint:gosec // the script that was just written
	shell.Env = append(os.Environ(), "TMPDIR="+tmp)
	// A newcomer is not inside a make.
	shell.Env = slices.DeleteFunc(shell.Env, func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return slices.Contains([]string{"MAKEFLAGS", "MAKELEVEL", "MFLAGS", "LANCEMASTER_ADDR"}, name)
	})
	shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	shell.Cancel = func() error { return syscall.Kill(-shell.Process.Pid, syscall.SIGKILL) }
	fmt.Printf("docs: the commands of %s\n", page)
	err = shell.Run()
	if ctx.Err() != nil {
		err = fmt.Errorf("did not end within %s", pageLimit)
	}
	err = errors.Join(err, leave(shell.Process))
	for n, b := range blocks {
		out, readErr := os.ReadFile(filepath.Join(work, fmt.Sprintf("out.%d", n)))
		if readErr != nil { // the shell stopped before
			return outputs, fmt.Errorf("line %d: %w", blocks[max(n-1, 0)].line, errors.Join(err, readErr))
		}
		fmt.Printf("--- %s:%d\n%s\n%s", page, b.line, strings.Join(b.commands, "\n"), out)
		lines := strings.Split(string(bytes.TrimRight(out, "\n")), "\n")
		for i := range lines {
			lines[i] = strings.TrimRight(lines[i], " ")
		}
		outputs = append(outputs, lines)
	}
	return outputs, err
}

// leave waits until no process is left of a shell's group.
func leave(shell *os.Process) error {
	if shell == nil {
		return nil
	}
	deadline := time.Now().Add(leaveLimit)
	for syscall.Kill(-shell.Pid, 0) == nil {
		if time.Now().After(deadline) {
			return errors.Join(errors.New("processes were left behind, and are ended now"), syscall.Kill(-shell.Pid, syscall.SIGKILL))
		}
		time.Sleep(100 * time.Millisecond) //sleep: the interval of a poll that leaveLimit bounds
	}
	return nil
}

// remove removes a folder in which programs may have made folders that nobody may write to.
func remove(dir string) error {
	ctx, cancel := context.WithTimeout(context.Background(), leaveLimit)
	defer cancel()
	if err := exec.CommandContext(ctx, "chmod", "-R", "u+w", dir).Run(); err != nil { //nolint:gosec // a folder that run has made
		return err
	}
	return os.RemoveAll(dir)
}

func compare(want, got []string) error {
	left := map[string]int{}
	for _, line := range got {
		left[normal(line)]++
	}
	var missing []string
	partial := false
	for _, line := range want {
		switch n := normal(line); {
		case line == dots:
			partial = true
		case left[n] > 0:
			left[n]--
		default:
			missing = append(missing, line)
		}
	}
	surplus := 0
	for line, n := range left {
		if line != "" {
			surplus += n
		}
	}
	if len(missing) == 0 && (partial || surplus == 0) {
		return nil
	}
	return fmt.Errorf("the page shows what is not printed, or not all of it; make docs-generate\n  not printed:\n    %s\n  printed:\n    %s",
		strings.Join(missing, "\n    "), strings.Join(got, "\n    "))
}

// behind is how far a member is behind, which stands in some rows only.
var behind = regexp.MustCompile(`\(-\d+\)`)

// normal is a line without what differs from run to run.
func normal(line string) string {
	words := strings.Fields(behind.ReplaceAllString(line, ""))
	for i, word := range words {
		if word == "-" || strings.ContainsAny(word, "0123456789") || strings.HasPrefix(word, "unverified:") {
			words[i] = "#"
		}
	}
	return strings.Join(words, " ")
}
