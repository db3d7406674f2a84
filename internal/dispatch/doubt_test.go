package dispatch

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lancemaster/lancemaster/internal/backend"
	"github.com/lancemaster/lancemaster/internal/job"
)

func TestInDoubt(t *testing.T) {
	asked := time.Unix(1000, 0)
	for _, c := range []struct {
		name      string
		status    backend.Status
		unreached time.Time
		doubt     bool
	}{
		{"all is well", backend.Status{OKAsked: asked}, time.Time{}, false},
		{"the newest heartbeat failed", backend.Status{OKAsked: asked, LastError: "connection refused"}, time.Time{}, true},
		{"not reached before", backend.Status{OKAsked: asked}, asked.Add(-time.Millisecond), false},
		{"not reached at that moment", backend.Status{OKAsked: asked}, asked, true},
		{"not reached since", backend.Status{OKAsked: asked}, asked.Add(time.Millisecond), true},
		{"both", backend.Status{OKAsked: asked, LastError: "connection refused"}, asked.Add(-time.Millisecond), true},
	} {
		if got := inDoubt(c.status, c.unreached); got != c.doubt {
			t.Errorf("%s: in doubt %v", c.name, got)
		}
	}
}

// What is remembered of a backend goes with it.
func TestUnreachedIsForgottenWithItsBackend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.end()
		for _, text := range []string{
			"elect a", "backend add", "backend add", "backend 1 dial=fails", "backend 2 dial=fails", "admit", "backend 1 falters", "admit",
		} {
			w.do(text)
		}
		r := w.node("a").d.run
		remembered := func() []job.BackendID {
			r.mu.Lock()
			defer r.mu.Unlock()
			return slices.Sorted(maps.Keys(r.unreached))
		}
		if ids := remembered(); !slices.Equal(ids, []job.BackendID{1, 2}) {
			t.Errorf("remembered are %v", ids)
		}
		w.must(job.RemoveBackend{Header: w.header(), Backend: 1})
		w.do("wake")
		if ids := remembered(); !slices.Equal(ids, []job.BackendID{2}) {
			t.Errorf("with backend 1 removed, remembered are %v", ids)
		}
	})
}

// statuses is what heartbeats say, where none are made.
type statuses map[job.BackendID]backend.Status

func (s statuses) Status(id job.BackendID) (backend.Status, bool) {
	status, known := s[id]
	return status, known
}

// TestTakeInOrder hands out the slots of random fleets and holds each choice against a
// list of all backends that is put in order anew each time.
func TestTakeInOrder(t *testing.T) {
	const term, limit = 3, 4
	now := time.Unix(1000, 0)
	for seed := range 2000 {
		rnd := rand.New(rand.NewPCG(uint64(seed), 2))
		said := statuses{}
		r := &run{
			d: &Dispatcher{cfg: Config{Liveness: said}}, term: term,
			reservations: map[job.ID]*reservation{}, unreached: map[job.BackendID]time.Time{},
		}
		s := &state{slots: map[job.BackendID]int{}, settings: job.Settings{MaxPerRound: 1000, DispatchInterval: time.Second}}
		model := make([]rival, 0, 6)
		for i := range rnd.IntN(7) {
			id := job.BackendID(i + 1)
			b := &job.Backend{ID: id, State: pick(rnd, job.BackendActive, job.BackendActive, job.BackendActive, job.BackendDraining)}
			status := backend.Status{
				Backend: id, Term: pick(rnd, uint64(term), term, term, term, term-1), Alive: rnd.IntN(5) > 0,
				OKAsked: now.Add(-time.Duration(rnd.IntN(3)) * time.Second), LastError: pick(rnd, "", "", "", "EOF"),
			}
			said[id], s.slots[id] = status, rnd.IntN(limit+1)
			failed := now.Add(-time.Duration(rnd.IntN(3)) * time.Second)
			doubt := status.LastError != ""
			if rnd.IntN(2) == 0 {
				r.unreached[id] = failed
				doubt = doubt || !status.OKAsked.After(failed)
			}
			s.backends = append(s.backends, b)
			model = append(model, rival{
				id: id, load: s.slots[id], doubt: doubt,
				fit: b.State == job.BackendActive && status.Alive && status.Term == term,
			})
		}
		free := r.capacity(s, now)
		for {
			want := bestOf(model, limit)
			got, why := free.take(limit)
			if want == nil && got == nil {
				break
			}
			if want == nil || got == nil || got.backend.ID != want.id {
				t.Fatalf("seed %d: took %+v (%v), want %+v of %+v", seed, got, why, want, model)
			}
			want.load++
		}
	}
}

// rival is a backend as the naive model of TestTakeInOrder sees it.
type rival struct {
	id         job.BackendID
	load       int
	fit, doubt bool
}

func bestOf(model []rival, limit int) *rival {
	var list []*rival
	for i := range model {
		if model[i].fit && model[i].load < limit {
			list = append(list, &model[i])
		}
	}
	if len(list) == 0 {
		return nil
	}
	rank := map[bool]int{true: 1}
	slices.SortFunc(list, func(a, b *rival) int {
		return cmp.Or(cmp.Compare(rank[a.doubt], rank[b.doubt]), cmp.Compare(a.load, b.load), cmp.Compare(a.id, b.id))
	})
	return list[0]
}
