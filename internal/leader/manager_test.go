package leader

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

func TestOneTermAfterTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newBench(t, nil)
		x.a.onStart = func(ctx context.Context, term uint64) error {
			context.AfterFunc(ctx, func() {
				// By the time this runs a newer term may be ready.
				if now, _ := x.ready.get(); now == term {
					t.Error("a service's context ends before readiness is withdrawn")
				}
			})
			return nil
		}
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
			if _, ok := x.Ready(); ok {
				t.Error("ready while a service stops")
			}
			synctest.Wait()
			if x.b.ctx.Err() != nil {
				t.Error("the context of a service that stops has ended, in a term still led")
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
						c.OnTermStart = func(_ context.Context, term uint64) error {
							x.diary.note("term %d", term)
							lost(x, "term", term)
							return nil
						}
						x.a.onStart = func(_ context.Context, term uint64) error { lost(x, "a", term); return nil }
						x.b.onStart = func(_ context.Context, term uint64) error { lost(x, "b", term); return nil }
					})
					x.Start()
					x.node.lead(3)
					want := map[string][]string{
						"term": {"term 3"},
						"a":    {"term 3", "start a 3", "stop a"},
						"b":    {"term 3", "start a 3", "start b 3", "stop b", "stop a"},
					}[at]
					if next != 0 {
						want = append(slices.Clone(want), "term 4", "start a 4", "start b 4")
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
