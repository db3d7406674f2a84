package programs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"testing"
	"time"
)

// Ran is how a command ended.
type Ran struct {
	Code           int
	Stdout, Stderr string
}

func (r Ran) String() string {
	return fmt.Sprintf("exit code %d\nstdout: %s\nstderr: %s", r.Code, r.Stdout, r.Stderr)
}

// Run runs a command to its end.
func Run(t testing.TB, env []string, path string, args ...string) Ran {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...) //nolint:gosec // the caller is a test
	cmd.Env = Environment(env...)
	cmd.Dir = t.TempDir()
	cmd.WaitDelay = time.Second
	cmd.SysProcAttr = endWithParent()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if ctx.Err() != nil || err != nil && !errors.As(err, &exit) {
		t.Fatalf("%s %q: %v\n%s%s", path, args, err, stdout.String(), stderr.String())
	}
	r := Ran{Code: cmd.ProcessState.ExitCode(), Stdout: stdout.String(), Stderr: stderr.String()}
	if fault := outcry.FindString(r.Stdout + r.Stderr); fault != "" {
		t.Errorf("%s %q printed %q", path, args, fault)
	}
	return r
}
