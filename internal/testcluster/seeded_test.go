package testcluster

import (
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

var (
	oneSeed = flag.Uint64("seed", 0, "repeat this one seed, with the masters' logs in the failure")
	logs    = flag.Bool("logs", false, "write the masters' logs to standard error")
)

const (
	// usualRuns is how many seeds are tried where RUNS does not say.
	usualRuns = 5
	// hangs is how much real time one run may take.
	hangs = 3 * time.Minute
)

// number reads an environment variable.
func number(t *testing.T, name string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		t.Fatalf("%s is %q, not a number", name, text)
	}
	return n
}

// TestSeeded runs clusters under faults that follow from seeds: RUNS of them from SEED on.
func TestSeeded(t *testing.T) {
	first, runs := number(t, "SEED", 1), number(t, "RUNS", usualRuns)
	if *oneSeed != 0 {
		first, runs = *oneSeed, 1
	}
	for seed := first; seed < first+runs; seed++ {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) { seeded(t, seed) })
	}
}

func seeded(t *testing.T, seed uint64) {
	stuck := time.AfterFunc(hangs, func() { panic(fmt.Sprintf("seed %d hangs", seed)) })
	defer stuck.Stop()
	plan := Plan{Dir: memory(t), Seed: seed, Over: 40 * time.Second, Clients: 3, Names: 4, Notify: notified(t)}
	if *logs {
		plan.Logger = slog.New(slog.NewTextHandler(io.Writer(os.Stderr), nil))
	}
	began := time.Now()
	synctest.Test(t, func(t *testing.T) {
		virtual := time.Now()
		run, faults := Perform(plan)
		if len(faults) > 0 {
			t.Errorf("seed %d:\n%s\nthe schedule was:\n%s", seed, strings.Join(faults, "\n"), run.Schedule)
		}
		f := run.Recorder.Facts()
		t.Logf("%s of virtual time, %d submissions, %d sends, %d reports, %d observations", time.Since(virtual), len(f.Submissions), len(f.Sends), len(f.Reports), len(f.Observations))
	})
	t.Logf("%s", time.Since(began))
}

// notified is a service that catalogs are refreshed with. It fails at times. It is outside of the
// bubble, where time goes on: to those inside it answers in no time.
func notified(t *testing.T) string {
	t.Helper()
	var calls atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if calls.Add(1)%4 == 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}
