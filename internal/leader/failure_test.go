package leader

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

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
				var want []time.Duration
				for _, pauses := range []int64{0, 1, 3, 7, 15} {
					want = append(want, time.Duration(pauses*defaultMinBackoff.Nanoseconds()))
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
		pass(250 * time.Millisecond) // two failures
		if len(x.fatal()) != 0 {
			t.Fatalf("fatal too early: %v", x.fatal())
		}
		pass(time.Hour)
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

// One failure in each of many terms, and a success after it, is nothing fatal.
func TestSuccessForgivesFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failed := uint64(0)
		x := newBench(t, func(x *bench, c *Config) {
			c.MaxFailures = 2
			x.b.onStart = func(_ context.Context, term uint64) error {
				if failed != term {
					failed = term
					return errors.New("trouble")
				}
				return nil
			}
		})
		x.Start()
		for term := uint64(1); term < 10; term++ {
			x.node.lead(term)
			if got, err := x.Wait(t.Context()); got != term || err != nil {
				t.Errorf("ready in term %d, not %d: %v", got, term, err)
			}
		}
		x.stop(t)
		if len(x.fatal()) != 0 {
			t.Errorf("fatal: %v", x.fatal())
		}
	})
}

// What was withdrawn is not published any more, and a former term takes nothing from a newer one.
func TestLatePublication(t *testing.T) {
	x := newBench(t, nil)
	x.node.lead(3)
	former := x.begin(3)
	former.withdraw()
	former.publish()
	x.expectReady(t, 0)
	former.end()
	x.node.lead(4)
	newer := x.begin(4)
	newer.publish()
	x.expectReady(t, 4)
	former.publish()
	x.expectReady(t, 4)
	newer.end()
	x.expectReady(t, 0)
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
		pass(time.Hour)
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
		pass(defaultStepDownTimeout)
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
		pass(defaultStartTimeout - time.Second)
		x.expect(t, "barrier", "term 3", "start a 3", "start b 3")
		pass(time.Second)
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
		pass(defaultStartTimeout)
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
				pass(defaultStopTimeout - time.Second)
				if len(x.fatal()) != 0 {
					t.Errorf("fatal too early: %v", x.fatal())
				}
				pass(2 * time.Second)
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
