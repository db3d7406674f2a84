package leader

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// fakeNode is a Raft node whose leadership a test decides.
type fakeNode struct {
	mu      sync.Mutex
	term    uint64
	changed chan struct{}
	barrier func(ctx context.Context) error
}

func newFakeNode() *fakeNode {
	return &fakeNode{changed: make(chan struct{})}
}

// lead makes the node lead term, or none with 0.
func (f *fakeNode) lead(term uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.term != term {
		f.term = term
		close(f.changed)
		f.changed = make(chan struct{})
	}
}

func (f *fakeNode) Leadership() (uint64, bool, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.term, f.term != 0, f.changed
}

func (f *fakeNode) ReadBarrier(ctx context.Context) error {
	if f.barrier != nil {
		return f.barrier(ctx)
	}
	return nil
}

// diary is what happened, in order.
type diary struct {
	mu    sync.Mutex
	lines []string
}

func (d *diary) note(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, fmt.Sprintf(format, args...))
}

// take returns what was noted since the last take.
func (d *diary) take() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	lines := d.lines
	d.lines = nil
	return lines
}

// fakeService notes what is asked of it.
type fakeService struct {
	name    string
	diary   *diary
	onStart func(ctx context.Context, term uint64) error
	onStop  func()
	ctx     context.Context
}

func (s *fakeService) Name() string { return s.name }

func (s *fakeService) Start(ctx context.Context, term uint64) error {
	s.diary.note("start %s %d", s.name, term)
	s.ctx = ctx
	if s.onStart != nil {
		return s.onStart(ctx, term)
	}
	return nil
}

func (s *fakeService) Stop() {
	s.diary.note("stop %s", s.name)
	if s.onStop != nil {
		s.onStop()
	}
}

// bench is a manager with two services on a fake node, all noting in one diary.
type bench struct {
	*Manager
	node   *fakeNode
	diary  *diary
	a, b   *fakeService
	fatals []error
	mu     sync.Mutex
}

func newBench(t *testing.T, change func(*bench, *Config)) *bench {
	t.Helper()
	x := &bench{node: newFakeNode(), diary: &diary{}}
	x.a, x.b = &fakeService{name: "a", diary: x.diary}, &fakeService{name: "b", diary: x.diary}
	x.node.barrier = func(context.Context) error { x.diary.note("barrier"); return nil }
	config := Config{
		Node: x.node, Services: []Service{x.a, x.b},
		OnTermStart: func(_ context.Context, term uint64) error { x.diary.note("term %d", term); return nil },
		Fatal: func(err error) {
			x.mu.Lock()
			defer x.mu.Unlock()
			x.fatals = append(x.fatals, err)
		},
	}
	if change != nil {
		change(x, &config)
	}
	m, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	x.Manager = m
	return x
}

func (x *bench) fatal() []error {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Clone(x.fatals)
}

func (x *bench) expect(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	if got := x.diary.take(); !slices.Equal(got, want) {
		t.Errorf("noted\n  %s\nnot\n  %s", strings.Join(got, ", "), strings.Join(want, ", "))
	}
}

func (x *bench) expectReady(t *testing.T, want uint64) {
	t.Helper()
	if term, ok := x.Ready(); term != want || ok != (want != 0) {
		t.Errorf("ready in term %d (%v), not %d", term, ok, want)
	}
}

func (x *bench) stop(t *testing.T) {
	t.Helper()
	if err := x.Stop(t.Context()); err != nil {
		t.Errorf("stop: %v", err)
	}
	x.expectReady(t, 0)
}

func TestOneTermAfterTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newBench(t, nil)
		x.Start()
		x.Start()
		x.expect(t)
		x.expectReady(t, 0)
		x.node.lead(3)
		x.expect(t, "barrier", "term 3", "start a 3", "start b 3")
		x.expectReady(t, 3)
		if x.a.ctx.Err() != nil {
			t.Error("a service's context has ended in its term")
		}
		// The service that stops sees that the node is not ready, and its context ended.
		x.b.onStop = func() {
			if _, ok := x.Ready(); ok || !errors.Is(context.Cause(x.b.ctx), errTermLost) {
				t.Error("a service is stopped before readiness is withdrawn and its context ended")
			}
		}
		x.node.lead(0)
		x.expect(t, "stop b", "stop a")
		x.expectReady(t, 0)

		x.node.lead(5)
		x.expect(t, "barrier", "term 5", "start a 5", "start b 5")
		// Lost and won again, with nothing seen in between.
		x.node.lead(8)
		x.expect(t, "stop b", "stop a", "barrier", "term 8", "start a 8", "start b 8")
		x.expectReady(t, 8)

		// Stopped while it leads: the context lives until all have stopped.
		x.b.onStop = func() {
			if _, ok := x.Ready(); ok || x.b.ctx.Err() != nil {
				t.Error("stopping: ready while a service stops, or its context ended")
			}
		}
		x.stop(t)
		x.expect(t, "stop b", "stop a")
		if x.b.ctx.Err() == nil {
			t.Error("a service's context outlives the manager")
		}
		x.node.lead(9)
		x.expect(t)
		x.stop(t)
		if len(x.fatal()) != 0 {
			t.Errorf("fatal: %v", x.fatal())
		}
	})
}

// The next term waits for the end of the former one's services, however long they take.
func TestNextTermWaitsForTheFormer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newBench(t, nil)
		x.Start()
		x.node.lead(1)
		x.expect(t, "barrier", "term 1", "start a 1", "start b 1")
		linger := make(chan struct{})
		x.a.onStop = func() { <-linger }
		x.node.lead(2)
		x.expect(t, "stop b", "stop a")
		x.expectReady(t, 0)
		x.node.lead(0)
		x.node.lead(7)
		x.expect(t)
		close(linger)
		x.expect(t, "barrier", "term 7", "start a 7", "start b 7")
		x.expectReady(t, 7)
		x.stop(t)
	})
}

// A term lost at any point of its start publishes nothing and leaves nothing running.
func TestTermLostDuringTheStart(t *testing.T) {
	for _, at := range []string{"barrier", "term", "a", "b"} {
		for _, next := range []uint64{0, 4} {
			t.Run(fmt.Sprintf("%s, then term %d", at, next), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					// lost loses the term at its point, and says nothing of it.
					lost := func(x *bench, point string, term uint64) {
						if point == at && term == 3 {
							x.node.lead(next)
						}
					}
					x := newBench(t, func(x *bench, c *Config) {
						x.node.barrier = func(context.Context) error { lost(x, "barrier", x.node.term); return nil }
						c.OnTermStart = func(_ context.Context, term uint64) error { lost(x, "term", term); return nil }
						x.a.onStart = func(_ context.Context, term uint64) error { lost(x, "a", term); return nil }
						x.b.onStart = func(_ context.Context, term uint64) error { lost(x, "b", term); return nil }
					})
					x.Start()
					x.node.lead(3)
					want := map[string][]string{
						"a": {"start a 3", "stop a"}, "b": {"start a 3", "start b 3", "stop b", "stop a"},
					}[at]
					if next != 0 {
						want = append(slices.Clone(want), "start a 4", "start b 4")
					}
					x.expect(t, want...)
					x.expectReady(t, next)
					x.stop(t)
				})
			})
		}
	}
}

// A start that has been overtaken by two terms neither publishes nor tears anything down.
func TestSlowStartIsOvertaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newBench(t, nil)
		slow := make(chan struct{})
		x.b.onStart = func(_ context.Context, term uint64) error {
			if term == 1 {
				<-slow // deaf to its context
			}
			return nil
		}
		x.Start()
		x.node.lead(1)
		x.expect(t, "barrier", "term 1", "start a 1", "start b 1")
		x.node.lead(2)
		x.node.lead(3)
		x.expect(t)
		x.expectReady(t, 0)
		close(slow)
		x.expect(t, "stop b", "stop a", "barrier", "term 3", "start a 3", "start b 3")
		x.expectReady(t, 3)
		x.stop(t)
	})
}

func TestFailedStartIsTriedAgain(t *testing.T) {
	for _, at := range []string{"barrier", "term", "a", "b"} {
		t.Run(at, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var began []time.Duration
				first := time.Now()
				trouble := errors.New("trouble")
				x := newBench(t, func(x *bench, c *Config) {
					fail := func(point string) error {
						if point == at && len(began) < 5 {
							return trouble
						}
						return nil
					}
					x.node.barrier = func(context.Context) error {
						began = append(began, time.Since(first))
						return fail("barrier")
					}
					c.OnTermStart = func(context.Context, uint64) error { return fail("term") }
					x.a.onStart = func(context.Context, uint64) error { return fail("a") }
					x.b.onStart = func(context.Context, uint64) error { return fail("b") }
					c.StepDown = func(context.Context) error { return errors.New("alone") }
				})
				x.Start()
				x.node.lead(3)
				term, err := x.Wait(t.Context())
				if term != 3 || err != nil {
					t.Errorf("waited for term %d: %v", term, err)
				}
				want := []time.Duration{0, 100, 300, 700, 1500}
				for i := range want {
					want[i] *= time.Millisecond
				}
				if !slices.Equal(began, want) {
					t.Errorf("starts were tried at %v, not %v", began, want)
				}
				lines := x.diary.take()
				for i, line := range lines[:max(len(lines)-1, 0)] {
					if line == "start b 3" && lines[i+1] != "stop b" {
						t.Errorf("a failed service is not stopped: %q", lines)
					}
				}
				if want := []string{"start a 3", "start b 3"}; !slices.Equal(lines[len(lines)-2:], want) {
					t.Errorf("noted %q, which does not end with %q", lines, want)
				}
				x.stop(t)
				if len(x.fatal()) != 0 {
					t.Errorf("fatal: %v", x.fatal())
				}
			})
		})
	}
}

func TestTooManyFailuresAreFatal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		trouble := errors.New("trouble")
		x := newBench(t, func(x *bench, c *Config) {
			c.MaxFailures = 3
			x.b.onStart = func(context.Context, uint64) error { return trouble }
		})
		x.Start()
		x.node.lead(3)
		time.Sleep(250 * time.Millisecond) // two failures
		if len(x.fatal()) != 0 {
			t.Fatalf("fatal too early: %v", x.fatal())
		}
		time.Sleep(time.Hour)
		if got := x.fatal(); len(got) != 1 || !errors.Is(got[0], trouble) {
			t.Errorf("fatal: %v", got)
		}
		x.stop(t)
	})
}

// Failures of a start do not count when the term had gone anyway, and begin anew after a success.
func TestFailuresInARowCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newBench(t, func(x *bench, c *Config) {
			c.MaxFailures = 2
			x.b.onStart = func(ctx context.Context, term uint64) error {
				if term%2 == 1 {
					x.node.lead(term + 1)
					<-ctx.Done()
					return ctx.Err()
				}
				return nil
			}
		})
		x.Start()
		for term := uint64(1); term < 20; term += 2 {
			x.node.lead(term)
			synctest.Wait()
			x.expectReady(t, term+1)
		}
		x.stop(t)
		if len(x.fatal()) != 0 {
			t.Errorf("fatal: %v", x.fatal())
		}
	})
}

func TestFailedStartStepsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newBench(t, func(x *bench, c *Config) {
			x.b.onStart = func(context.Context, uint64) error { return errors.New("trouble") }
			c.StepDown = func(context.Context) error {
				x.diary.note("step down")
				x.node.lead(0)
				return nil
			}
		})
		x.Start()
		x.node.lead(3)
		x.expect(t, "barrier", "term 3", "start a 3", "start b 3", "stop b", "stop a", "step down")
		time.Sleep(time.Hour)
		x.expect(t)
		x.stop(t)
	})
}

// A handing over that says it has worked and has not is not waited for for ever.
func TestStepDownWithoutEffect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newBench(t, func(x *bench, c *Config) {
			x.b.onStart = func(context.Context, uint64) error { return errors.New("trouble") }
			c.StepDown = func(context.Context) error { x.diary.note("step down"); return nil }
		})
		x.Start()
		x.node.lead(3)
		once := []string{"barrier", "term 3", "start a 3", "start b 3", "stop b", "stop a", "step down"}
		x.expect(t, once...)
		time.Sleep(defaultStepDownTimeout)
		x.expect(t, once...)
		x.stop(t)
	})
}

func TestStartIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newBench(t, func(x *bench, c *Config) {
			c.MaxFailures = 1
			x.b.onStart = func(ctx context.Context, _ uint64) error { <-ctx.Done(); return ctx.Err() }
		})
		x.Start()
		x.node.lead(3)
		time.Sleep(defaultStartTimeout - time.Second)
		x.expect(t, "barrier", "term 3", "start a 3", "start b 3")
		time.Sleep(time.Second)
		x.expect(t, "stop b", "stop a")
		if got := x.fatal(); len(got) != 1 || !strings.Contains(got[0].Error(), "not started within 30s") {
			t.Errorf("fatal: %v", got)
		}
		x.stop(t)
	})
}

// A service that returns nil although its context has ended is not taken for started.
func TestStartThatIgnoresItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newBench(t, func(x *bench, c *Config) {
			c.MaxFailures = 1
			x.b.onStart = func(ctx context.Context, _ uint64) error { <-ctx.Done(); return nil }
		})
		x.Start()
		x.node.lead(3)
		time.Sleep(defaultStartTimeout)
		x.expect(t, "barrier", "term 3", "start a 3", "start b 3", "stop b", "stop a")
		x.expectReady(t, 0)
		if got := x.fatal(); len(got) != 1 {
			t.Errorf("fatal: %v", got)
		}
		x.stop(t)
	})
}

func TestHangsAreFatal(t *testing.T) {
	for _, hangs := range []string{"start", "stop"} {
		t.Run(hangs, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hang := make(chan struct{})
				x := newBench(t, func(x *bench, _ *Config) {
					if hangs == "start" {
						x.a.onStart = func(context.Context, uint64) error { <-hang; return nil }
					} else {
						x.a.onStop = func() { <-hang }
					}
				})
				x.Start()
				x.node.lead(3)
				synctest.Wait()
				x.node.lead(0)
				time.Sleep(defaultStopTimeout - time.Second)
				if len(x.fatal()) != 0 {
					t.Errorf("fatal too early: %v", x.fatal())
				}
				time.Sleep(2 * time.Second)
				if got := x.fatal(); len(got) != 1 || !strings.Contains(got[0].Error(), "term 3") {
					t.Errorf("fatal: %v", got)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if err := x.Stop(ctx); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("stop while a service hangs: %v", err)
				}
				close(hang)
				x.stop(t)
			})
		})
	}
}

// Stop ends a start under way, and a pause between two.
func TestStopInterrupts(t *testing.T) {
	for _, what := range []string{"a barrier", "a start", "a pause", "a step down"} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x := newBench(t, func(x *bench, c *Config) {
					wait := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
					fail := func(context.Context, uint64) error { return errors.New("trouble") }
					switch what {
					case "a barrier":
						x.node.barrier = wait
					case "a start":
						x.b.onStart = func(ctx context.Context, _ uint64) error { return wait(ctx) }
					case "a pause":
						c.MinBackoff, c.MaxBackoff = time.Hour, time.Hour
						x.b.onStart = fail
					case "a step down":
						c.StepDownTimeout = time.Hour
						c.StepDown = wait
						x.b.onStart = fail
					}
				})
				x.Start()
				x.node.lead(3)
				synctest.Wait()
				began := time.Now()
				x.stop(t)
				if took := time.Since(began); took > time.Second {
					t.Errorf("stopping took %s", took)
				}
			})
		})
	}
}

func TestStopWithoutStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newBench(t, nil)
		x.stop(t)
		x.Start()
		x.node.lead(1)
		x.expect(t)
		if _, err := x.Wait(t.Context()); !errors.Is(err, ErrStopped) {
			t.Errorf("waiting for a stopped manager: %v", err)
		}
	})
}

func TestReadyAsksTheNode(t *testing.T) {
	x := newBench(t, nil)
	x.ready.set(3)
	x.expectReady(t, 0)
	x.node.lead(3)
	x.expectReady(t, 3)
	x.node.lead(4)
	x.expectReady(t, 0)
}

func TestWaitAndChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newBench(t, nil)
		x.Start()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := x.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("waiting in vain: %v", err)
		}
		up := x.Changed()
		x.node.lead(2)
		<-up
		down := x.Changed()
		x.expectReady(t, 2)
		x.node.lead(0)
		<-down
		x.expectReady(t, 0)
		x.stop(t)
	})
}

func TestConfigIsChecked(t *testing.T) {
	if _, err := New(Config{Fatal: func(error) {}}); err == nil {
		t.Error("a manager without a node")
	}
	if _, err := New(Config{Node: newFakeNode()}); err == nil {
		t.Error("a manager without anybody to be told")
	}
}
