//go:build faults

package faults

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/lancemaster/lancemaster/internal/programs"
)

const (
	// patience bounds every wait: long enough for a machine with much else to do.
	patience = 60 * time.Second
	// defaultMix is how long a random mix goes on.
	defaultMix = 20 * time.Second
)

func TestMain(m *testing.M) {
	s, err := chooseSeed()
	if err == nil {
		mixTime, err = chooseMixTime()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "faults:", err)
		os.Exit(1)
	}
	seed = s
	fmt.Printf("faults: SEED=%d\n", seed)
	code := programs.Main(m)
	if code != 0 {
		fmt.Printf("faults: the choices of this run are repeated with SEED=%d\n", seed)
	}
	os.Exit(code)
}

var (
	seed    uint64
	mixTime time.Duration
)

func chooseSeed() (uint64, error) {
	text := os.Getenv("LANCEMASTER_FAULTS_SEED")
	if text == "" {
		return rand.Uint64() >> 32, nil // short enough to type
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("the seed %q is no number", text)
	}
	return n, nil
}

func chooseMixTime() (time.Duration, error) {
	text := os.Getenv("LANCEMASTER_FAULTS_TIME")
	if text == "" {
		return defaultMix, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("LANCEMASTER_FAULTS_TIME=%s is no duration such as 20s", text)
	}
	return d, nil
}

// dice is a test's own source of choices, so that tests can be run one by one with the same seed.
func dice(t testing.TB, purpose string) *rand.Rand {
	h := fnv.New64a()
	fmt.Fprint(h, t.Name(), purpose)
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}

// between is a random duration.
func between(r *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(r.Int64N(int64(most-least)))
}
