package programs

import (
	"bytes"
	"context"
	"errors"
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

	"github.com/lancemaster/lancemaster/internal/await"
)

const (
	// StopLimit is how long a master may take to stop: the contract's bound.
	StopLimit = 10 * time.Second
	// patience bounds a wait for what takes milliseconds on a machine with nothing else to do.
	patience = 60 * time.Second
	// pollEvery is the pause between two looks at something that gives no signal.
	pollEvery = 5 * time.Millisecond
	// shownOutput bounds what a failed test shows of one process, in bytes.
	shownOutput = 24 << 10
)

// Main runs the tests and returns their exit code. It fails if a process outlived them.
func Main(m *testing.M) int {
	code := m.Run()
	for _, left := range processes.running() {
		fmt.Fprintln(os.Stderr, "a process outlived the tests:", left)
		code = 1
	}
	return code
}

// processes are all that were started and have not ended.
var processes registry

type registry struct {
	mu   sync.Mutex
	live map[*Process]bool
}

func (r *registry) add(p *Process) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.live == nil {
		r.live = map[*Process]bool{}
	}
	r.live[p] = true
}

func (r *registry) remove(p *Process) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.live, p)
}

func (r *registry) running() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []string
	for p := range r.live {
		out = append(out, fmt.Sprintf("%s (pid %d)", p.Name, p.Pid()))
	}
	return out
}

// Path returns where one of the programs under test is.
func Path(t testing.TB, name string) string {
	t.Helper()
	dir := os.Getenv("LANCEMASTER_BIN")
	if dir == "" {
		t.Fatal("LANCEMASTER_BIN does not say where the programs are; run the make target of these tests")
	}
	path := filepath.Join(dir, name)
	if _, err := os.Stat(path); err != nil { //nolint:gosec // where the make target says
		t.Fatalf("%v; run the make target of these tests, which builds it", err)
	}
	return path
}

// Environment is the test's own without what would configure a program under test, and more.
func Environment(more ...string) []string {
	var out []string
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "LANCEMASTER_") || strings.HasPrefix(kv, "LANCEMASTER_CI_MARK=") {
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

// Process is a program that runs beside the test.
type Process struct {
	Name string
	Cmd  *exec.Cmd

	t      testing.TB
	out    *output
	done   chan struct{}
	err    error // of Wait; read after done
	mayDie bool  // it was killed
}

// Launch starts a command; what name it goes by in messages is the caller's to say. Its directory is one
// of the test's own.
func Launch(t testing.TB, name string, env []string, path string, args ...string) *Process {
	t.Helper()
	p := &Process{Name: name, t: t, out: &output{}, done: make(chan struct{})}
	p.Cmd = exec.CommandContext(context.Background(), path, args...) //nolint:gosec // the caller is a test; it outlives none: see cleanup
	p.Cmd.Env = Environment(env...)
	p.Cmd.Dir = t.TempDir()
	p.Cmd.Stdout, p.Cmd.Stderr = p.out, p.out
	p.Cmd.WaitDelay = patience
	p.Cmd.SysProcAttr = endWithParent()
	if err := p.Cmd.Start(); err != nil {
		t.Fatalf("starting %s: %v", name, err)
	}
	processes.add(p)
	go func() {
		p.err = p.Cmd.Wait()
		processes.remove(p)
		close(p.done)
	}()
	t.Cleanup(p.cleanup)
	return p
}

func (p *Process) cleanup() {
	if p.Running() {
		_ = p.Cmd.Process.Signal(syscall.SIGCONT) // one that was stopped could not end
		p.Terminate()
	}
	out := p.out.String()
	if fault := outcry.FindString(out); fault != "" {
		p.t.Errorf("%s printed %q", p.Name, fault)
	}
	if p.t.Failed() {
		if len(out) > shownOutput {
			out = "[...]" + out[len(out)-shownOutput:]
		}
		p.t.Logf("output of %s, pid %d, %s:\n%s", p.Name, p.Pid(), strings.Join(p.Cmd.Args[1:], " "), out)
	}
}

// outcry is what no program may ever print.
var outcry = regexp.MustCompile(`(?m)^(panic: .*|fatal error: .*|WARNING: DATA RACE)$|msg="?panic.*`)

// Pid is the process's id.
func (p *Process) Pid() int { return p.Cmd.Process.Pid }

// Out is what it has printed.
func (p *Process) Out() string { return p.out.String() }

// Running tells whether it has not ended.
func (p *Process) Running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Done is closed when it has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err is how it ended; it is called after the end.
func (p *Process) Err() error {
	<-p.done
	return p.err
}

// ExitCode is its exit code, -1 of one that a signal ended; it is called after the end.
func (p *Process) ExitCode() int {
	<-p.done
	return p.Cmd.ProcessState.ExitCode()
}

// Kill is kill -9.
func (p *Process) Kill() {
	p.t.Helper()
	p.Shoot()
	p.Wait(patience)
}

// Shoot is kill -9 without waiting for the end.
func (p *Process) Shoot() {
	p.t.Helper()
	p.mayDie = true
	if err := p.Cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Errorf("killing %s: %v", p.Name, err)
	}
}

// Terminate sends SIGTERM and returns how long the process took to end, which it must do with exit
// code 0.
func (p *Process) Terminate() time.Duration {
	p.t.Helper()
	began := time.Now()
	p.Signal(syscall.SIGTERM)
	return p.Stops(began)
}

// Stops waits for the end of a process that was sent SIGTERM at a time.
func (p *Process) Stops(began time.Time) time.Duration {
	p.t.Helper()
	p.Wait(3 * StopLimit)
	took := time.Since(began)
	if code := p.Cmd.ProcessState.ExitCode(); !p.mayDie && code != 0 {
		p.t.Errorf("%s ended with exit code %d after SIGTERM, want 0", p.Name, code)
	}
	if took > StopLimit {
		p.t.Errorf("%s took %s to stop, want at most %s", p.Name, took, StopLimit)
	}
	return took
}

// TerminateAnyhow sends SIGTERM to a process that may not have come to expect it: one that the signal
// itself ends is fine.
func (p *Process) TerminateAnyhow() time.Duration {
	p.t.Helper()
	began := time.Now()
	p.Signal(syscall.SIGTERM)
	p.Wait(3 * StopLimit)
	status, ok := p.Cmd.ProcessState.Sys().(syscall.WaitStatus)
	bySignal := ok && status.Signaled() && status.Signal() == syscall.SIGTERM
	if p.Cmd.ProcessState.ExitCode() != 0 && !bySignal {
		p.t.Errorf("%s ended with %s after SIGTERM while starting", p.Name, p.Cmd.ProcessState)
	}
	return time.Since(began)
}

// AwaitFailure waits for a process to end by itself, which it must within the limit and with an exit code
// that is not 0.
func (p *Process) AwaitFailure(limit time.Duration) {
	p.t.Helper()
	p.mayDie = true
	p.Wait(limit)
	if code := p.ExitCode(); code == 0 {
		p.t.Errorf("%s ended with exit code 0, want a failure", p.Name)
	}
}

// Signal sends a signal, if the process still runs.
func (p *Process) Signal(s os.Signal) {
	p.t.Helper()
	if err := p.Cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Errorf("%s to %s: %v", s, p.Name, err)
	}
}

// Wait waits for the end; a process that does not end in time is killed, and the test fails.
func (p *Process) Wait(limit time.Duration) {
	p.t.Helper()
	select {
	case <-p.done:
		return
	case <-time.After(limit):
	}
	p.t.Errorf("%s (pid %d) did not end within %s", p.Name, p.Pid(), limit)
	p.mayDie = true
	_ = p.Cmd.Process.Signal(syscall.SIGQUIT) // its goroutines are in the output then
	select {
	case <-p.done:
	case <-time.After(time.Second):
		_ = p.Cmd.Process.Kill() // it may have ended by now
		<-p.done
	}
}

// ExpectLine waits until the process has printed something that pattern matches, and returns the
// match's groups.
func (p *Process) ExpectLine(pattern string) []string {
	p.t.Helper()
	re := regexp.MustCompile(pattern)
	var found []string
	Eventually(p.t, patience, func() string {
		if found = re.FindStringSubmatch(p.out.String()); found != nil {
			return ""
		}
		if !p.Running() {
			p.t.Fatalf("%s ended (%v) without printing %q", p.Name, p.err, pattern)
		}
		return fmt.Sprintf("%s has not printed %q", p.Name, pattern)
	})
	return found
}

// Eventually calls look until it returns nothing; what it returns says what is missing.
func Eventually(t testing.TB, limit time.Duration, look func() (missing string)) {
	t.Helper()
	if missing := Await(limit, look); missing != "" {
		t.Fatalf("after %s: %s", limit, missing)
	}
}

// Await is Eventually for goroutines that may not end the test.
func Await(limit time.Duration, look func() (missing string)) string {
	var missing string
	await.Poll(pollEvery, limit, func() bool {
		missing = look()
		return missing == ""
	})
	return missing
}
