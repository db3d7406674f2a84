package fsm

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The victim is this test binary, started anew to be killed.
const victimEnv = "LANCEMASTER_FSM_VICTIM"

const victimSeed = 42

func isVictim() bool { return os.Getenv(victimEnv) != "" }

// victim applies the seeded journal from where the state file is, a few entries
// back, and says after each batch how far it is. It ends only by being killed.
func victim() {
	m, err := Open(Config{Path: os.Getenv(victimEnv), Fatal: func(err error) { fmt.Println("fatal", err); os.Exit(3) }})
	if err != nil {
		fmt.Println("fatal", err)
		os.Exit(3)
	}
	a := newAuthor(newSeeded(victimSeed))
	var recent []written
	for a.model.Position.Index < m.Applied().Index {
		if recent = append(recent, a.next()); len(recent) > 4 {
			recent = recent[1:]
		}
	}
	for n := 0; ; n++ {
		batch := recent
		recent = nil
		for range n%9 + 1 {
			batch = append(batch, a.next())
		}
		for _, r := range apply(m, batch...) {
			if r.Err != nil {
				fmt.Println("fatal", r.Err)
				os.Exit(3)
			}
		}
		fmt.Println("applied", m.Applied().Index)
	}
}

// TestKill kills a process that applies a journal, again and again, at random
// moments. Whatever it said was applied is there afterwards, and the state is exactly
// that of some position: nothing is half-applied.
func TestKill(t *testing.T) {
	rounds := 15
	if testing.Short() {
		rounds = 5
	}
	path := filepath.Join(t.TempDir(), "state.db")
	reference := openTemp(t)
	a := newAuthor(newSeeded(victimSeed))
	random := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0))
	var last uint64
	for round := range rounds {
		acknowledged := killOne(t, path, 1+random.IntN(30), time.Duration(random.IntN(3000))*time.Microsecond)
		m := openAt(t, path)
		check(t, m)
		at := m.Applied()
		if at.Index < acknowledged || at.Index < last {
			t.Fatalf("round %d: the state is at %d, acknowledged was %d, before the round %d", round, at.Index, acknowledged, last)
		}
		last = at.Index
		for a.model.Position.Index < at.Index {
			apply(reference, a.next())
		}
		if hash(t, m) != hash(t, reference) {
			t.Fatalf("round %d: the state at %d is not that of the journal up to there", round, at.Index)
		}
		closed(t, m)
	}
	if last < uint64(rounds) {
		t.Fatalf("only %d entries were applied in all", last)
	}
	t.Logf("%d kills, %d entries", rounds, last)
}

// killOne starts a victim, reads so many acknowledgements, waits a moment that ends
// anywhere in the batch that follows, and kills it. It returns the last index that
// was acknowledged.
func killOne(t *testing.T, path string, acks int, moment time.Duration) uint64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), victimEnv+"="+path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var last uint64
	lines := bufio.NewScanner(out)
	for n := 0; lines.Scan(); n++ {
		number, ok := strings.CutPrefix(lines.Text(), "applied ")
		if !ok {
			t.Fatalf("the victim says %q", lines.Text())
		}
		if last, err = strconv.ParseUint(number, 10, 64); err != nil {
			t.Fatal(err)
		}
		if n == acks {
			time.AfterFunc(moment, func() { _ = cmd.Process.Kill() })
		}
	}
	if err := cmd.Wait(); !errors.As(err, new(*exec.ExitError)) || ctx.Err() != nil {
		t.Fatalf("the victim ended by %v (%v)", err, ctx.Err())
	}
	return last
}
