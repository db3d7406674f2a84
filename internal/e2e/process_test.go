//go:build e2e

package e2e

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
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	// patience bounds every wait for something that takes milliseconds on a machine with nothing else
	// to do.
	patience = 30 * time.Second
	// pollEvery is the pause between two looks at something that gives no signal.
	pollEvery = 5 * time.Millisecond
	// stopLimit is how long a master may take to stop: the contract's bound.
	stopLimit = 10 * time.Second
	// shownOutput bounds what a failed test shows of one process, in bytes.
	shownOutput = 24 << 10
	// parallelTests is how many tests run at once. Most of their time is spent waiting for elections.
	parallelTests = "8"
)

func TestMain(m *testing.M) {
	flag.Parse()
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" })
	if !chosen {
		if err := flag.Set("test.parallel", parallelTests); err != nil {
			fmt.Fprintln(os.Stderr, "e2e:", err)
			os.Exit(1)
		}
	}
	code := m.Run()
	for _, left := range processes.running() {
		fmt.Fprintln(os.Stderr, "e2e: a process outlived the tests:", left)
		code = 1
	}
	os.Exit(code)
}

// processes are all that were started and have not ended.
var processes registry

type registry struct {
	mu   sync.Mutex
	live map[*process]bool
}

func (r *registry) add(p *process) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.live == nil {
		r.live = map[*process]bool{}
	}
	r.live[p] = true
}

func (r *registry) remove(p *process) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.live, p)
}

func (r *registry) running() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []string
	for p := range r.live {
		out = append(out, fmt.Sprintf("%s (pid %d)", p.name, p.cmd.Process.Pid))
	}
	return out
}

// program returns the path of one of the programs under test.
func program(t *testing.T, name string) string {
	t.Helper()
	dir := os.Getenv("LANCEMASTER_BIN")
	if dir == "" {
		t.Fatal("LANCEMASTER_BIN does not say where the programs are; run: make e2e")
	}
	path := filepath.Join(dir, name)
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%v; run: make e2e", err)
	}
	return path
}

// environment is the test's own without what would configure a program under test, and more.
func environment(more ...string) []string {
	var out []string
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "LANCEMASTER_") {
			out = append(out, kv)
		}
	}
	return append(out, more...)
}

// output collects what a process prints.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// process is a program that runs beside the test.
type process struct {
	t      *testing.T
	name   string
	cmd    *exec.Cmd
	out    *output
	killed bool
	done   chan struct{}
	err    error // of Wait; read after done
}

// launch starts a program. When the test ends it is told to stop, and must.
func launch(t *testing.T, name string, env []string, args ...string) *process {
	t.Helper()
	p := &process{t: t, name: name, out: &output{}, done: make(chan struct{})}
	p.cmd = exec.CommandContext(context.Background(), program(t, name), args...) // outlives no test: see cleanup
	p.cmd.Env = environment(env...)
	p.cmd.Dir = t.TempDir()
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.out
	p.cmd.WaitDelay = patience
	p.cmd.SysProcAttr = endWithParent()
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("starting %s: %v", name, err)
	}
	processes.add(p)
	go func() {
		p.err = p.cmd.Wait()
		processes.remove(p)
		close(p.done)
	}()
	t.Cleanup(p.cleanup)
	return p
}

func (p *process) cleanup() {
	if p.running() {
		p.terminate()
	}
	out := p.out.String()
	if fault := outcry.FindString(out); fault != "" {
		p.t.Errorf("%s printed %q", p.name, fault)
	}
	if p.t.Failed() {
		if len(out) > shownOutput {
			out = "[...]" + out[len(out)-shownOutput:]
		}
		p.t.Logf("output of %s %s:\n%s", p.name, strings.Join(p.cmd.Args[1:], " "), out)
	}
}

// outcry is what no program may ever print.
var outcry = regexp.MustCompile(`(?m)^(panic: .*|fatal error: .*|WARNING: DATA RACE)$|msg="?panic.*`)

func (p *process) pid() int { return p.cmd.Process.Pid }

func (p *process) running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// kill is kill -9.
func (p *process) kill() {
	p.t.Helper()
	p.killed = true
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Errorf("killing %s: %v", p.name, err)
	}
	p.wait(patience)
}

// terminate sends SIGTERM and returns how long the process took to end, which it must do with exit
// code 0.
func (p *process) terminate() time.Duration {
	p.t.Helper()
	began := time.Now()
	p.signal(syscall.SIGTERM)
	return p.stops(began)
}

// stops waits for the end of a process that was sent SIGTERM at a time.
func (p *process) stops(began time.Time) time.Duration {
	p.t.Helper()
	p.wait(3 * stopLimit)
	took := time.Since(began)
	if code := p.cmd.ProcessState.ExitCode(); !p.killed && code != 0 {
		p.t.Errorf("%s ended with exit code %d after SIGTERM, want 0", p.name, code)
	}
	if took > stopLimit {
		p.t.Errorf("%s took %s to stop, want at most %s", p.name, took, stopLimit)
	}
	return took
}

// terminateAnyhow sends SIGTERM to a process that may not have come to expect it: one that the signal
// itself ends is fine.
func (p *process) terminateAnyhow() time.Duration {
	p.t.Helper()
	began := time.Now()
	p.signal(syscall.SIGTERM)
	p.wait(3 * stopLimit)
	status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	bySignal := ok && status.Signaled() && status.Signal() == syscall.SIGTERM
	if p.cmd.ProcessState.ExitCode() != 0 && !bySignal {
		p.t.Errorf("%s ended with %s after SIGTERM while starting", p.name, p.cmd.ProcessState)
	}
	return time.Since(began)
}

func (p *process) signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Errorf("%s to %s: %v", s, p.name, err)
	}
}

// wait waits for the end; a process that does not end in time is killed, and the test fails.
func (p *process) wait(limit time.Duration) {
	p.t.Helper()
	select {
	case <-p.done:
		return
	case <-time.After(limit):
	}
	p.t.Errorf("%s (pid %d) did not end within %s", p.name, p.pid(), limit)
	p.killed = true
	_ = p.cmd.Process.Signal(syscall.SIGQUIT) // its goroutines are in the output then
	select {
	case <-p.done:
	case <-time.After(time.Second):
		_ = p.cmd.Process.Kill() // it may have ended by now
		<-p.done
	}
}

// expectLine waits until the process has printed something that pattern matches, and returns the
// match's groups.
func (p *process) expectLine(pattern string) []string {
	p.t.Helper()
	re := regexp.MustCompile(pattern)
	var found []string
	eventually(p.t, patience, func() string {
		if found = re.FindStringSubmatch(p.out.String()); found != nil {
			return ""
		}
		if !p.running() {
			p.t.Fatalf("%s ended (%v) without printing %q", p.name, p.err, pattern)
		}
		return fmt.Sprintf("%s has not printed %q", p.name, pattern)
	})
	return found
}

// eventually calls look until it returns nothing; what it returns says what is missing.
func eventually(t *testing.T, limit time.Duration, look func() (missing string)) {
	t.Helper()
	if missing := await(limit, look); missing != "" {
		t.Fatalf("after %s: %s", limit, missing)
	}
}

// await is eventually for goroutines that may not end the test.
func await(limit time.Duration, look func() (missing string)) string {
	deadline := time.Now().Add(limit)
	for {
		missing := look()
		if missing == "" || time.Now().After(deadline) {
			return missing
		}
		time.Sleep(pollEvery) //sleep: the deadline above bounds the polling
	}
}

// ran is how a command ended.
type ran struct {
	code           int
	stdout, stderr string
}

func (r ran) String() string {
	return fmt.Sprintf("exit code %d\nstdout: %s\nstderr: %s", r.code, r.stdout, r.stderr)
}

// runProgram runs a program to its end.
func runProgram(t *testing.T, name string, env []string, args ...string) ran {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, program(t, name), args...)
	cmd.Env = environment(env...)
	cmd.Dir = t.TempDir()
	cmd.WaitDelay = time.Second
	cmd.SysProcAttr = endWithParent()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if ctx.Err() != nil || err != nil && !errors.As(err, &exit) {
		t.Fatalf("%s %q: %v\n%s%s", name, args, err, stdout.String(), stderr.String())
	}
	r := ran{code: cmd.ProcessState.ExitCode(), stdout: stdout.String(), stderr: stderr.String()}
	if fault := outcry.FindString(r.stdout + r.stderr); fault != "" {
		t.Errorf("%s %q printed %q", name, args, fault)
	}
	return r
}
