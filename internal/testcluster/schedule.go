package testcluster

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"time"

	"github.com/lancemaster/lancemaster/internal/client"
)

// Event is one fault, or its end, at a time after the run's start.
type Event struct {
	At   time.Duration
	Name string
	do   func(*Run)
}

// Schedule is what is done to a cluster.
type Schedule []Event

// String lists the schedule, one event a line.
func (s Schedule) String() string {
	var b strings.Builder
	for _, e := range s {
		fmt.Fprintf(&b, "%8s  %s\n", e.At.Round(time.Millisecond), e.Name)
	}
	return b.String()
}

const (
	// Pauses between two events.
	shortestCalm, longestCalm = 100 * time.Millisecond, 4 * time.Second
	masters, backends         = 3, 2
)

// NewSchedule makes a schedule by chance, over a time.
func NewSchedule(random *rand.Rand, over time.Duration) Schedule {
	var out Schedule
	for at := shortestCalm; ; {
		at += shortestCalm + time.Duration(random.Int64N(int64(longestCalm-shortestCalm)))
		if at > over {
			return out
		}
		name, do := anEvent(random)
		out = append(out, Event{At: at, Name: name, do: do})
	}
}

// kinds are what may happen, each as often as its weight says.
var kinds = []struct {
	weight int
	make   func(*rand.Rand) (string, func(*Run))
}{
	{14, func(*rand.Rand) (string, func(*Run)) {
		return "heal the network", func(r *Run) { r.Cluster.Net.Heal() }
	}},
	{7, isolate}, {6, oneWay}, {5, bridge}, {8, slow}, {4, cutBackend}, {4, cutClients},
	{3, suspend}, {8, crash}, {4, stopOne}, {12, startAll}, {3, crashAll}, {6, transfer}, {5, stepClock}, {5, restartBackend},
	{5, toggle("dispatch.paused", "true", "false")}, {2, toggle("admission.enabled", "false", "true")},
	{3, toggle("dispatch.max_inflight_per_backend", "1", "8")}, {2, toggle("leader_change.running", "unknown", "keep")},
	{2, toggle("dispatch.interval", "500ms", "5s")},
}

func anEvent(random *rand.Rand) (string, func(*Run)) {
	sum := 0
	for _, k := range kinds {
		sum += k.weight
	}
	n := random.IntN(sum)
	for _, k := range kinds {
		if n -= k.weight; n < 0 {
			return k.make(random)
		}
	}
	panic("the weights do not add up")
}

// leaderFirst is a master by chance, which half of the time means the leader of the moment.
type leaderFirst struct {
	leader bool
	n      int
}

func someMaster(random *rand.Rand) leaderFirst {
	return leaderFirst{random.IntN(2) == 0, random.IntN(masters)}
}

func (l leaderFirst) String() string {
	if l.leader {
		return "the leader"
	}
	return masterName(l.n)
}

func (l leaderFirst) in(r *Run) *Master {
	if l.leader {
		if m := r.Cluster.Leader(); m != nil {
			return m
		}
	}
	return r.Cluster.Masters[l.n]
}

// others are the addresses of the masters but one.
func (r *Run) others(than *Master) (out []netip.Addr) {
	for _, m := range r.Cluster.Masters {
		if m != than {
			out = append(out, m.Addr)
		}
	}
	return out
}

func isolate(random *rand.Rand) (string, func(*Run)) {
	who := someMaster(random)
	return fmt.Sprintf("cut %s off from the other masters", who), func(r *Run) {
		m := who.in(r)
		for _, o := range r.others(m) {
			r.Cluster.Net.Cut(m.Addr, o)
			r.Cluster.Net.Cut(o, m.Addr)
		}
	}
}

func oneWay(random *rand.Rand) (string, func(*Run)) {
	who, out := someMaster(random), random.IntN(2) == 0
	name := fmt.Sprintf("let %s hear nothing from the other masters", who)
	if out {
		name = fmt.Sprintf("let the other masters hear nothing from %s", who)
	}
	return name, func(r *Run) {
		m := who.in(r)
		for _, o := range r.others(m) {
			if out {
				r.Cluster.Net.Cut(m.Addr, o)
			} else {
				r.Cluster.Net.Cut(o, m.Addr)
			}
		}
	}
}

func bridge(random *rand.Rand) (string, func(*Run)) {
	who := someMaster(random)
	return fmt.Sprintf("let only %s hear the two others", who), func(r *Run) {
		pair := r.others(who.in(r))
		r.Cluster.Net.Cut(pair[0], pair[1])
		r.Cluster.Net.Cut(pair[1], pair[0])
	}
}

func slow(random *rand.Rand) (string, func(*Run)) {
	who, by := someMaster(random), time.Duration(random.Int64N(int64(3*time.Second)))
	out := random.IntN(2) == 0
	name := "hears"
	if out {
		name = "sends"
	}
	return fmt.Sprintf("slow what %s %s by %s", who, name, by.Round(time.Millisecond)), func(r *Run) {
		m := who.in(r)
		others := r.others(m)
		for n := range backends {
			others = append(others, BackendAddr(n))
		}
		for _, o := range others {
			if out {
				r.Cluster.Net.Slow(m.Addr, o, by)
			} else {
				r.Cluster.Net.Slow(o, m.Addr, by)
			}
		}
	}
}

func cutBackend(random *rand.Rand) (string, func(*Run)) {
	who, n, way := someMaster(random), random.IntN(backends), random.IntN(3)
	name := [...]string{"both ways", "towards the backend", "towards the master"}[way]
	return fmt.Sprintf("cut %s and backend %d, %s", who, n+1, name), func(r *Run) {
		m := who.in(r)
		if way != 2 {
			r.Cluster.Net.Cut(m.Addr, BackendAddr(n))
		}
		if way != 1 {
			r.Cluster.Net.Cut(BackendAddr(n), m.Addr)
		}
	}
}

func cutClients(random *rand.Rand) (string, func(*Run)) {
	who, answers := someMaster(random), random.IntN(2) == 0
	name := "requests to"
	if answers {
		name = "answers of"
	}
	return fmt.Sprintf("hold back %s %s", name, who), func(r *Run) {
		m := who.in(r)
		for n := range r.clients {
			if answers {
				r.Cluster.Net.Cut(m.Addr, ClientAddr(n))
			} else {
				r.Cluster.Net.Cut(ClientAddr(n), m.Addr)
			}
		}
	}
}

func crash(random *rand.Rand) (string, func(*Run)) {
	who := someMaster(random)
	return fmt.Sprintf("crash %s", who), func(r *Run) { r.check(who.in(r).Crash()) }
}

func crashAll(*rand.Rand) (string, func(*Run)) {
	return "crash all masters", func(r *Run) {
		for _, m := range r.Cluster.Masters {
			r.check(m.Crash())
		}
	}
}

func stopOne(random *rand.Rand) (string, func(*Run)) {
	who := someMaster(random)
	return fmt.Sprintf("stop %s", who), func(r *Run) {
		m := who.in(r)
		r.aside(func() { r.check(m.Stop()) })
	}
}

func startAll(*rand.Rand) (string, func(*Run)) {
	return "start masters that are down", func(r *Run) { r.startAll() }
}

// asideTime bounds what an operator does during a run.
const asideTime = 10 * time.Second

func transfer(random *rand.Rand) (string, func(*Run)) {
	to := masterName(random.IntN(masters))
	if random.IntN(3) == 0 {
		to = ""
	}
	return fmt.Sprintf("hand the leadership over to %q", to), func(r *Run) {
		r.operate(func(ctx context.Context, api *client.Client) error {
			_, err := api.TransferLeader(ctx, to)
			return err
		})
	}
}

func toggle(name, one, other string) func(*rand.Rand) (string, func(*Run)) {
	return func(random *rand.Rand) (string, func(*Run)) {
		value := one
		if random.IntN(2) == 0 {
			value = other
		}
		return fmt.Sprintf("set %s to %s", name, value), func(r *Run) {
			r.operate(func(ctx context.Context, api *client.Client) error {
				_, err := api.SetSettings(ctx, []client.SettingValue{{Name: name, Value: value}})
				return err
			})
		}
	}
}

func stepClock(random *rand.Rand) (string, func(*Run)) {
	who, ahead := someMaster(random), time.Duration(random.IntN(13)-6)*time.Hour
	return fmt.Sprintf("set the clock of %s %s ahead", who, ahead), func(r *Run) { who.in(r).SetClock(ahead) }
}

func suspend(random *rand.Rand) (string, func(*Run)) {
	who, d := someMaster(random), time.Duration(random.Int64N(int64(20*time.Second)))
	return fmt.Sprintf("let %s have been suspended for %s", who, d.Round(time.Millisecond)), func(r *Run) { who.in(r).Suspend(d) }
}

func restartBackend(random *rand.Rand) (string, func(*Run)) {
	n := random.IntN(backends)
	return fmt.Sprintf("restart backend %d", n+1), func(r *Run) { r.Backends[n].Restart() }
}
