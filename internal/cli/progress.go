package cli

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/lancemaster/lancemaster/internal/client"
)

const (
	progressBeat = time.Second      // between two drawings of the line
	progressAsk  = 10 * time.Second // between two questions what is waited for
	progressTime = 3 * time.Second  // of one such question
	eraseLine    = "\r\x1b[K"
)

// progress is a line on a terminal that says what is waited for and since when. It is drawn anew in
// place; what else is written meanwhile stands above it. A nil one does nothing.
type progress struct {
	out   io.Writer
	width func() int
	// ask says what is waited for; nil: nobody knows.
	ask    func(context.Context) string
	begun  time.Time
	cancel context.CancelFunc
	done   chan struct{}
	undo   func()

	mu    sync.Mutex
	head  string
	waits string
}

// showProgress begins a line on stderr, if that is a terminal that can erase one. The caller closes it.
func (a *cli) showProgress(ctx context.Context, ask func(context.Context) string) *progress {
	if !isTerminal(a.Err) || a.getenv("TERM", "") == "dumb" {
		return nil
	}
	out, errs := a.Out, a.Err
	p := newProgress(ctx, errs, ask)
	p.undo = func() { a.Out, a.Err = out, errs }
	a.Err = &above{p, errs}
	if isTerminal(out) { // it is most often the same one
		a.Out = &above{p, out}
	}
	return p
}

func newProgress(ctx context.Context, out io.Writer, ask func(context.Context) string) *progress {
	ctx, cancel := context.WithCancel(ctx)
	p := &progress{
		out: out, width: func() int { return widthOf(out) }, ask: ask, begun: time.Now(), cancel: cancel, done: make(chan struct{}), undo: func() {},
	}
	go p.run(ctx)
	return p
}

func (p *progress) run(ctx context.Context) {
	defer close(p.done)
	beat := time.NewTicker(progressBeat)
	defer beat.Stop()
	asked, about := time.Time{}, ""
	for {
		select {
		case <-beat.C:
		case <-ctx.Done():
			return
		}
		p.mu.Lock()
		head := p.head
		p.mu.Unlock()
		if p.ask != nil && (head != about || time.Since(asked) >= progressAsk) {
			call, cancel := context.WithTimeout(ctx, progressTime)
			waits := p.ask(call)
			cancel()
			asked, about = time.Now(), head
			p.mu.Lock()
			if p.head == head { // else it is of what was before
				p.waits = waits
			}
			p.mu.Unlock()
		}
		p.mu.Lock()
		p.draw()
		p.mu.Unlock()
	}
}

// say sets how things stand.
func (p *progress) say(head string) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if head != p.head {
		p.head, p.waits = head, ""
	}
	p.draw()
}

// draw needs the lock. What cannot be drawn is no loss.
func (p *progress) draw() {
	if p.head == "" {
		return
	}
	text := fmt.Sprintf("%s, %s", p.head, time.Since(p.begun).Truncate(time.Second))
	if p.waits != "" {
		text += ": " + p.waits
	}
	if w := p.width(); w > 1 {
		text = shortened(text, w-1) // a line that fills the last column cannot be erased
	}
	_, _ = io.WriteString(p.out, eraseLine+text)
}

// close erases the line and ends it.
func (p *progress) close() {
	if p == nil {
		return
	}
	p.cancel()
	<-p.done
	p.undo()
	_, _ = io.WriteString(p.out, eraseLine)
}

// above writes what stands above the line.
type above struct {
	p *progress
	w io.Writer
}

func (w *above) Write(b []byte) (int, error) {
	w.p.mu.Lock()
	defer w.p.mu.Unlock()
	_, _ = io.WriteString(w.p.out, eraseLine)
	n, err := w.w.Write(b)
	w.p.draw()
	return n, err
}

func (w *above) IsTerminal() bool { return isTerminal(w.w) }
func (w *above) Width() int       { return widthOf(w.w) }

// waitsFor asks what keeps a job where it is; how one ended that still holds something is not that.
func waitsFor(c *client.Client, id int64) func(context.Context) string {
	return func(ctx context.Context) string {
		x, err := c.Explain(ctx, id)
		if err != nil {
			return "" // the wait itself tells when no master answers
		}
		for _, r := range x.Reasons {
			if r.Code != "OUTCOME" && r.Code != "OUTCOME_UNKNOWN" {
				return clean(r.Message)
			}
		}
		return ""
	}
}
