package dispatch

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lancemaster/lancemaster/internal/job"
)

var seeds = flag.Int("seeds", 300, "random interleavings to try")

// TestRandomInterleavings lets everything happen in any order: two masters that
// are elected, deposed, stopped and killed, a journal that loses answers, backends
// that refuse, hang, restart and answer late. The world's own checks hold every
// write and every proof against what really happened: at most one write of each
// job ever, under the identity and secret that were journaled before it; NOT_ENQUEUED
// only where nothing may run; BE_PROCESS_EPOCH_GONE only of a process that is gone.
// After all that, healed, every job comes to an end.
func TestRandomInterleavings(t *testing.T) {
	for seed := range *seeds {
		ok := t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { randomWorld(t, uint64(seed)) })
		})
		if !ok {
			return // the first failing seed is enough to read
		}
	}
}

type chaos struct {
	w     *world
	r     *rand.Rand
	done  []string
	asked []string // heartbeats that were answered and have not arrived
}

func randomWorld(t *testing.T, seed uint64) {
	w := newWorld(t)
	c := &chaos{w: w, r: rand.New(rand.NewPCG(seed, 1))}
	defer func() {
		w.end()
		if t.Failed() {
			t.Logf("what was done:\n%s", strings.Join(c.done, "\n"))
		}
	}()
	for _, text := range []string{
		"backend add", "backend add", "catalog lake refresher=http", "catalog vault secret=env:KEY", "secret env:KEY=v",
		"set dispatch.max_inflight_per_backend=3", "set dispatch.send_window=5s", "set admission.max_unresolved_per_table=1000", "elect a",
	} {
		c.do(text)
	}
	for range 60 {
		c.step()
		if t.Failed() {
			return
		}
	}
	c.heal()
}

func (c *chaos) do(text string) {
	c.done = append(c.done, text)
	if out := c.w.do(text); out != "" {
		c.done = append(c.done, "  "+strings.ReplaceAll(strings.TrimSpace(out), "\n", "\n  "))
	}
}

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

// step does one thing.
func (c *chaos) step() {
	r := c.r
	answers := []string{"lost", "applied-lost", "late", "not-appended", "takes:1s", "takes:6s"}
	switch r.IntN(21) {
	case 0, 1, 2, 3:
		c.do(fmt.Sprintf("admit catalog=%s deadline=%s", pick(r, "lake", "vault"), pick(r, "3s", "20s", "1h")))
	case 4, 5:
		c.do("advance " + pick(r, "1ms", "1s", "3s", "11s", "80s"))
	case 6, 7:
		c.do(fmt.Sprintf("backend %d dial=%s answer=%s", 1+r.IntN(2), pick(r, "OK", "OK", "fails", "waits", "takes:1s", "takes:4s"),
			pick(r, "OK", "OK", "waits", "hangs", "status:3", "status:99", "eof", "unknown-method", "takes:2s", "takes:2s,status:3")))
	case 8:
		c.do(fmt.Sprintf("journal %s %s", pick(r, "MARK_RUNNING", "MARK_RUNNING", "COMPLETE", "RECORD_TERMINATION",
			"REFRESH_START", "REFRESH_FINISH"), pick(r, answers...)))
	case 9:
		c.do(pick(r, "barrier fails", "read fails", "suspend 3s", "secret env:KEY=missing", "secret env:KEY=takes:1s", "secret env:KEY=v"))
	case 10, 11, 12:
		c.gate()
	case 13, 14:
		c.leader()
	case 15:
		c.do("set dispatch.paused=" + pick(r, "true", "false", "false"))
	case 16, 17:
		c.job()
	case 18:
		c.do(fmt.Sprintf("backend %d falters", 1+r.IntN(2)))
	default:
		c.heartbeat()
	}
}

func (c *chaos) leader() {
	name := pick(c.r, "a", "b")
	c.do(pick(c.r, "elect "+name, "elect "+name, "stop "+name, "depose", "crash "+name))
}

func (c *chaos) gate() {
	c.w.mu.Lock()
	gates := []string{}
	for gate := range c.w.gates {
		gates = append(gates, gate)
	}
	c.w.mu.Unlock()
	slices.Sort(gates)
	if len(gates) > 0 {
		c.do("go-on " + pick(c.r, gates...))
	}
}

// job is something that happens to a job from outside.
func (c *chaos) job() {
	c.w.mu.Lock()
	open := c.w.state.Jobs()
	c.w.mu.Unlock()
	if len(open) == 0 {
		return
	}
	rec := pick(c.r, open...)
	switch {
	case rec.State == job.StatePending:
		c.do(fmt.Sprintf("cancel %d", rec.ID))
	case rec.Dispatch.Dispatched() && (rec.State == job.StateRunning || rec.State == job.StateUnknown):
		c.do(fmt.Sprintf("report %d %s %s", rec.ID, pick(c.r, "NATIVE_OK", "NATIVE_IO"), pick(c.r, "", "proof=CHILD_REAPED")))
	}
}

// heartbeat restarts a backend, or lets it answer: now, or late with what was true
// when it was asked.
func (c *chaos) heartbeat() {
	id := job.BackendID(1 + c.r.IntN(2))
	c.w.mu.Lock()
	b := c.w.backends[id]
	now := time.Since(c.w.started)
	late := ""
	switch c.r.IntN(5) {
	case 0:
		b.process++
	case 1:
		c.asked = append(c.asked, fmt.Sprintf("%d %d %d", id, b.process, now))
	case 2:
		if len(c.asked) > 0 {
			late, c.asked = c.asked[0], c.asked[1:]
		}
	}
	process := b.process
	c.w.mu.Unlock()
	if late != "" {
		var at time.Duration
		if _, err := fmt.Sscanf(late, "%d %d %d", &id, &process, &at); err != nil {
			c.w.t.Fatal(err)
		}
		c.do(fmt.Sprintf("heartbeat %d epoch=%d asked=%s", id, process, now-at))
		return
	}
	c.do(fmt.Sprintf("heartbeat %d epoch=%d", id, process))
}

// ended reports whether no job holds a slot or waits for an outcome or a refresh.
func (c *chaos) ended() bool {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	return !slices.ContainsFunc(c.w.state.Jobs(), func(r *job.Record) bool {
		return !r.State.Terminal() || r.HoldsSlot() || owesRefresh(r)
	})
}

// heal ends the trouble and waits: every job that was admitted comes to an end, no
// process remembers a send whose slot is free, and nothing more is written then.
func (c *chaos) heal() {
	c.w.mu.Lock()
	clear(c.w.answers)
	c.w.refresher = ""
	c.w.mu.Unlock()
	for _, text := range []string{
		"secret env:KEY=v", "set dispatch.paused=false", "backend 1 dial=OK answer=OK", "backend 2 dial=OK answer=OK",
		"stop a", "stop b", "elect a", "advance 3m",
	} {
		c.do(text)
	}
	for range 60 { // the slots of workers that nobody reports on come free as their backends restart
		for id := range job.BackendID(3) {
			c.w.mu.Lock()
			b := c.w.backends[id]
			process := int64(0)
			if b != nil {
				b.process++
				process = b.process
			}
			c.w.mu.Unlock()
			if b != nil {
				c.do(fmt.Sprintf("heartbeat %d epoch=%d", id, process))
			}
		}
		c.do("advance 10m")
		if c.ended() {
			break
		}
	}
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	for _, rec := range c.w.state.All() {
		if !rec.State.Terminal() || rec.HoldsSlot() {
			c.w.t.Errorf("job %d is %s in the end, slot held: %v", rec.ID, rec.State, rec.HoldsSlot())
		}
	}
	if n := len(c.w.nodes["a"].sends.all()); n != 0 {
		c.w.t.Errorf("%d sends are remembered in the end", n)
	}
}
