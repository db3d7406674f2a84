package leader

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// stressed is a service that works on a goroutine and checks the manager's promises from there.
type stressed struct {
	t      *testing.T
	name   string
	before *stressed // the service started before this one, if any
	node   *fakeNode

	term   atomic.Uint64 // 0 when not running
	newest uint64        // the newest term ever started
	cancel context.CancelFunc
	work   sync.WaitGroup
	starts int
}

func (s *stressed) Name() string { return s.name }

func (s *stressed) Start(ctx context.Context, term uint64) error {
	s.starts++
	if running := s.term.Load(); running != 0 {
		s.t.Errorf("%s: term %d starts while term %d runs", s.name, term, running)
	}
	if term < s.newest {
		s.t.Errorf("%s: term %d starts after term %d", s.name, term, s.newest)
	}
	if s.before != nil && s.before.term.Load() != term {
		s.t.Errorf("%s: term %d starts before the services it needs", s.name, term)
	}
	s.newest = term
	s.term.Store(term)
	if rand.IntN(10) == 0 {
		return errors.New("an accident")
	}
	ctx, s.cancel = context.WithCancel(ctx)
	s.work.Go(func() {
		for ctx.Err() == nil {
			if got := s.term.Load(); got != term {
				s.t.Errorf("%s: work of term %d sees term %d", s.name, term, got)
				return
			}
			runtime.Gosched()
		}
	})
	return nil
}

func (s *stressed) Stop() {
	if s.cancel != nil {
		s.cancel()
	}
	s.work.Wait()
	s.term.Store(0)
}

// dawdle lets other goroutines go on for a while of random length.
func dawdle(most int) {
	for range rand.IntN(most) {
		runtime.Gosched()
	}
}

// Leadership comes and goes hundreds of times, starts fail now and then, and readers look on.
func TestStress(t *testing.T) {
	const flips = 1500
	node := newFakeNode()
	first := &stressed{t: t, name: "first", node: node}
	second := &stressed{t: t, name: "second", node: node, before: first}
	m, err := New(Config{
		Node: node, Services: []Service{first, second},
		OnTermStart: func(ctx context.Context, term uint64) error {
			if first.term.Load() != 0 || second.term.Load() != 0 {
				t.Errorf("term %d starts while the former one's services run", term)
			}
			return ctx.Err()
		},
		StepDown:    func(context.Context) error { return errors.New("nobody else") },
		Fatal:       func(err error) { t.Errorf("fatal: %v", err) },
		MaxFailures: 1000, MinBackoff: time.Microsecond, MaxBackoff: time.Microsecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	m.Start()

	done := make(chan struct{})
	var readers sync.WaitGroup
	var seen atomic.Int64
	readers.Go(func() {
		newest := uint64(0)
		for {
			select {
			case <-done:
				return
			default:
			}
			if term, ok := m.Ready(); ok {
				seen.Add(1)
				if term < newest {
					t.Errorf("ready in term %d after term %d", term, newest)
				}
				newest = term
			}
			runtime.Gosched()
		}
	})

	term := uint64(0)
	for range flips {
		term += 1 + rand.Uint64N(3)
		node.lead(term)
		switch rand.IntN(4) {
		case 0: // lost at once
		case 1:
			runtime.Gosched()
		case 2:
			dawdle(100)
		case 3:
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			if got, err := m.Wait(ctx); err != nil || got != term {
				t.Errorf("ready in term %d, not %d: %v", got, term, err)
			}
			cancel()
		}
		if rand.IntN(2) == 0 {
			node.lead(0)
		}
	}
	if rand.IntN(2) == 0 {
		node.lead(term + 1)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := m.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	close(done)
	readers.Wait()
	if first.term.Load() != 0 || second.term.Load() != 0 {
		t.Error("a service runs on after Stop")
	}
	if first.starts < flips/5 || seen.Load() == 0 {
		t.Errorf("only %d starts, ready seen %d times: the test tests little", first.starts, seen.Load())
	}
}

// Many managers, each stopped at a random moment.
func TestStressStop(t *testing.T) {
	for range 300 {
		node := newFakeNode()
		service := &stressed{t: t, name: "only", node: node}
		m, err := New(Config{
			Node: node, Services: []Service{service}, MinBackoff: time.Microsecond, MaxFailures: 1 << 20,
			Fatal: func(err error) { t.Errorf("fatal: %v", err) },
		})
		if err != nil {
			t.Fatal(err)
		}
		var flipping sync.WaitGroup
		flipping.Go(func() {
			for term := range uint64(5) {
				node.lead(term)
				runtime.Gosched()
			}
		})
		m.Start()
		dawdle(50)
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		if err := m.Stop(ctx); err != nil {
			t.Fatal(err)
		}
		cancel()
		if service.term.Load() != 0 {
			t.Fatal("the service runs on after Stop")
		}
		flipping.Wait()
	}
}
