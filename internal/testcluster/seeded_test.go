package testcluster

import (
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
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
	oneSeed = flag.Uint64("seed", 0, "run the faults of this one seed")
	logs    = flag.Bool("logs", false, "write the masters' logs to standard error")
)

// How long TestSeeded goes on, and with which seeds: as in the other fault suites, these variables say.
const (
	seedVariable = "LANCEMASTER_FAULTS_SEED" // the first seed; empty: a new one where one of the others is set
	runsVariable = "LANCEMASTER_FAULTS_RUNS" // how many seeds
	timeVariable = "LANCEMASTER_FAULTS_TIME" // for how long
	usualRuns    = 4
	// hangs is how much real time one run may take.
	hangs = 3 * time.Minute
)

// choice is which seeds are run.
type choice struct {
	first, runs uint64
	until       time.Time // or zero
}

func choose(t *testing.T) choice {
	t.Helper()
	c := choice{first: 1, runs: usualRuns}
	number := func(name string, to *uint64) bool {
		text := os.Getenv(name)
		if text == "" {
			return false
		}
		n, err := strconv.ParseUint(text, 10, 63)
		if err != nil {
			t.Fatalf("%s is %q, not a number", name, text)
		}
		*to = n
		return true
	}
	longer := number(runsVariable, &c.runs)
	if text := os.Getenv(timeVariable); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil {
			t.Fatalf("%s is %q, not a duration", timeVariable, text)
		}
		if !longer {
			c.runs = 1 << 62
		}
		longer, c.until = true, time.Now().Add(d)
	}
	if !number(seedVariable, &c.first) && longer {
		c.first = rand.Uint64N(1 << 40)
	}
	if *oneSeed != 0 {
		c = choice{first: *oneSeed, runs: 1}
	}
	return c
}

// TestSeeded runs clusters under faults that follow from seeds.
func TestSeeded(t *testing.T) {
	c := choose(t)
	t.Logf("seeds from %d on", c.first)
	var next atomic.Uint64
	var done atomic.Int64
	t.Cleanup(func() { t.Logf("%d runs", done.Load()) })
	for i := range 2 { // at once: one run is busy on one core most of the time
		t.Run(fmt.Sprintf("row %d", i+1), func(t *testing.T) {
			t.Parallel()
			for !t.Failed() {
				n := next.Add(1) - 1
				if n >= c.runs || !c.until.IsZero() && time.Now().After(c.until) {
					return
				}
				seeded(t, c.first+n)
				done.Add(1)
			}
		})
	}
}

// seeded does one run.
func seeded(t *testing.T, seed uint64) {
	t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
		plan := usualPlan(t, seed)
		inBubble(t, seed, func(t *testing.T) {
			began := time.Now()
			run, faults := Perform(plan)
			if len(faults) > 0 {
				t.Errorf("seed %d (repeat it with: go test ./internal/testcluster -run TestSeeded -seed %d):\n%s\nthe schedule was:\n%s",
					seed, seed, strings.Join(faults, "\n"), run.Schedule)
			}
			f := run.Recorder.Facts()
			t.Logf("%s of virtual time, %d submissions, %d sends, %d reports, %d observations",
				time.Since(began), len(f.Submissions), len(f.Sends), len(f.Reports), len(f.Observations))
		})
	})
}

// inBubble runs a test on virtual time, and says which seed it is if it never ends.
func inBubble(t *testing.T, seed uint64, f func(*testing.T)) {
	t.Helper()
	stuck := time.AfterFunc(hangs, func() { panic(fmt.Sprintf("the run of seed %d hangs", seed)) })
	defer stuck.Stop()
	synctest.Test(t, f)
}

func usualPlan(t *testing.T, seed uint64) Plan {
	t.Helper()
	plan := Plan{Dir: memory(t), Seed: seed, Over: 40 * time.Second, Clients: 4, Names: 4, Notify: notified(t)}
	if *logs {
		plan.Logger = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	return plan
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
