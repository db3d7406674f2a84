//go:build e2e

package e2e

import (
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/lancemaster/lancemaster/internal/programs"
)

const (
	// patience bounds every wait for something that takes milliseconds on a machine with nothing else
	// to do.
	patience = 30 * time.Second
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
	os.Exit(programs.Main(m))
}

// launch starts a program. When the test ends it is told to stop, and must.
func launch(t *testing.T, name string, env []string, args ...string) *programs.Process {
	t.Helper()
	return programs.Launch(t, name, env, programs.Path(t, name), args...)
}

// runProgram runs a program to its end.
func runProgram(t *testing.T, name string, env []string, args ...string) programs.Ran {
	t.Helper()
	return programs.Run(t, env, programs.Path(t, name), args...)
}
