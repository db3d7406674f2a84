package leader

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// term is the work of one term.
type term struct {
	m      *Manager
	number uint64
	// ctx ends when the term is lost.
	ctx    context.Context
	cancel context.CancelCauseFunc
	// watched is closed when the watching goroutine has ended.
	watched chan struct{}

	// mu orders the publication of readiness with its withdrawal.
	mu   sync.Mutex
	over bool // lost, or the manager is stopping: nothing is published any more
}

// begin watches a term. end must be called.
func (m *Manager) begin(number uint64) *term {
	t := &term{m: m, number: number, watched: make(chan struct{})}
	t.ctx, t.cancel = context.WithCancelCause(context.Background())
	go t.watch()
	return t
}

// watch withdraws readiness as soon as the term is lost or the manager stops, and ends the term's
// context when it is lost.
func (t *term) watch() {
	defer close(t.watched)
	stopping := t.m.stopping.Done()
	for {
		number, leads, changed := t.m.config.Node.Leadership()
		if !leads || number != t.number {
			t.withdraw()
			t.cancel(errTermLost)
			return
		}
		select {
		case <-changed:
		case <-stopping:
			t.withdraw()
			stopping = nil // and go on: the term may still be lost while the services stop
		case <-t.ctx.Done():
			return
		}
	}
}

// end ends the term's context and the watching.
func (t *term) end() {
	t.withdraw()
	t.cancel(context.Canceled)
	<-t.watched
}

// publish makes the node ready, unless the term is over.
func (t *term) publish() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.over {
		t.m.ready.set(t.number)
	}
}

func (t *term) withdraw() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = true
	t.m.ready.set(0)
}

// isOver says whether nothing is to be started any more. It asks the node too, which may know before
// watch does.
func (t *term) isOver() bool {
	t.mu.Lock()
	over := t.over
	t.mu.Unlock()
	number, leads, _ := t.m.config.Node.Leadership()
	return over || !leads || number != t.number || t.m.stopping.Err() != nil
}

// serve starts the services, is ready while the term lasts, and stops them. It returns an error if
// they did not all start.
func (t *term) serve() error {
	ctx, cancel := context.WithCancelCause(t.ctx)
	defer cancel(context.Canceled)
	began := time.Now()
	started, err := t.start(ctx, cancel)
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
		// Even where nothing complained: what was started has been told to end.
		err = errors.Join(cause, err)
	}
	if err == nil {
		t.m.metrics.starts.Observe(time.Since(began).Seconds())
		t.publish()
		select {
		case <-t.ctx.Done():
		case <-t.m.stopping.Done():
		}
		t.withdraw()
	}
	t.stop(started)
	return err
}

// start does what a term begins with, and returns the services to be stopped. The start's time, and
// Stop, end its context.
func (t *term) start(ctx context.Context, cancel context.CancelCauseFunc) (started []Service, err error) {
	began := make(chan struct{})
	var guard sync.WaitGroup
	guard.Go(func() { t.boundStart(began, cancel) })
	defer guard.Wait()
	defer close(began)

	if err := t.m.config.Node.ReadBarrier(ctx); err != nil {
		return nil, fmt.Errorf("barrier: %w", err)
	}
	if t.isOver() {
		return nil, errTermLost
	}
	if t.m.config.OnTermStart != nil {
		if err := t.m.config.OnTermStart(ctx, t.number); err != nil {
			return nil, fmt.Errorf("start of the term: %w", err)
		}
	}
	for _, service := range t.m.config.Services {
		if t.isOver() {
			return started, errTermLost
		}
		started = append(started, service)
		if err := service.Start(ctx, t.number); err != nil {
			return started, fmt.Errorf("start of service %s: %w", service.Name(), err)
		}
	}
	return started, nil
}

// boundStart ends a start that takes too long or that Stop interrupts, and calls it fatal when it
// does not return even then.
func (t *term) boundStart(began <-chan struct{}, cancel context.CancelCauseFunc) {
	limit := time.NewTimer(t.m.config.StartTimeout)
	defer limit.Stop()
	select {
	case <-began:
		return
	case <-t.ctx.Done():
	case <-t.m.stopping.Done():
		cancel(ErrStopped)
	case <-limit.C:
		cancel(fmt.Errorf("not started within %s", t.m.config.StartTimeout))
	}
	limit.Reset(t.m.config.StopTimeout)
	select {
	case <-began:
	case <-limit.C:
		t.m.config.Fatal(fmt.Errorf("the start of term %d's services has been told to end and has not returned for %s",
			t.number, t.m.config.StopTimeout))
	}
}

// stop stops services in the reverse order of their start, and waits for each.
func (t *term) stop(started []Service) {
	for i := len(started) - 1; i >= 0; i-- {
		service := started[i]
		hung := time.AfterFunc(t.m.config.StopTimeout, func() {
			t.m.config.Fatal(fmt.Errorf("service %s of term %d has not stopped within %s",
				service.Name(), t.number, t.m.config.StopTimeout))
		})
		service.Stop()
		hung.Stop()
	}
}

// giveUp hands the leadership to another member, or where that fails pauses before the next start.
// It returns at the latest when the term is over.
func (t *term) giveUp() {
	pause := t.m.backoff()
	if t.m.config.StepDown != nil {
		ctx, cancel := context.WithTimeout(t.ctx, t.m.config.StepDownTimeout)
		release := context.AfterFunc(t.m.stopping, cancel)
		err := t.m.config.StepDown(ctx)
		release()
		cancel()
		if err == nil {
			// The loss of the term is under way.
			pause = t.m.config.StepDownTimeout
		} else {
			t.m.log.Warn("could not hand over the leadership; trying again to start", "term", t.number, "in", pause, "error", err)
		}
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.ctx.Done():
	case <-t.m.stopping.Done():
	}
}
