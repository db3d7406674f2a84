package leader

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lancemaster/lancemaster/internal/await"
)

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

// pass lets time go by, in a bubble of synctest: the time is made up.
func pass(d time.Duration) {
	await.Pass(d)
}
