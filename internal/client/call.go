package client

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lancemaster/lancemaster/gen-go/admin"
)

const (
	// maxRounds is how often the list of addresses is gone through while masters
	// answer but none can serve: with the pauses between, about six seconds, which
	// an election fits into.
	maxRounds = 6
	// maxRedirects is how many times in one round a master's word about who leads
	// is followed.
	maxRedirects = 4
	// maxHangups is how many rounds in a row every address may hang up or answer
	// something strange. Once is a master that stops; again and again is a port of
	// something else, which no election turns into an admin service.
	maxHangups = 3

	// patience is how long they are gone through: each master may take some seconds
	// itself to say that it found no leader.
	patience = 10 * time.Second

	firstPause = 200 * time.Millisecond
	maxPause   = 2 * time.Second
)

// pauseFunc waits, or returns early with the context's error.
type pauseFunc func(context.Context, time.Duration) error

func pauseFor(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// kind says what may follow when a call got no answer.
type kind int

const (
	// reading changes nothing, so it may be asked again anywhere.
	reading kind = iota
	// repeatable changes something, but serving it twice does what once does.
	repeatable
	// once must not be served twice.
	once
)

// operation is one call of the service and how it may be treated.
type operation struct {
	name  string // as the caller reads it in an error
	kind  kind
	extra time.Duration // how long the peer may hold the answer back on purpose
	next  string        // what to do when the outcome of a repeatable call is unknown

	only   string               // if set, the one address to ask
	served func(address string) // if set, told who served the call
	silent bool                 // Config.Stale has been told of this state before
}

func read(name string) operation   { return operation{name: name, kind: reading} }
func change(name string) operation { return operation{name: name, kind: once} }

// invoke makes one call, following the leader.
func invoke[R any](ctx context.Context, c *Client, op operation, f func(context.Context, *admin.AdminServiceClient) (R, error)) (R, error) {
	var answer R
	err := c.do(ctx, op, func(ctx context.Context, s *admin.AdminServiceClient) (err error) {
		answer, err = f(ctx, s)
		return err
	})
	if err != nil {
		var none R
		return none, err
	}
	return answer, nil
}

type callFunc func(context.Context, *admin.AdminServiceClient) error

// do goes through the addresses until one serves the call, an answer is final, or
// the bounds are reached.
func (c *Client) do(ctx context.Context, op operation, f callFunc) error {
	if c.cfg.Stale != nil && op.kind != reading {
		return &Error{
			Code: CodeInvalid, Message: op.name + " was not sent: this client is for stale reads",
			Next: "use one without Config.Stale for changes",
		}
	}
	pause, until := firstPause, c.now().Add(patience)
	r := round{c: c, op: op, f: f}
	for n := 1; ; n++ {
		r.queue, r.tried, r.faults, r.redirects, r.stranger, r.hopeful = c.route(), nil, nil, 0, nil, false
		if op.only != "" {
			r.queue, r.redirects = []string{op.only}, maxRedirects
		}
		last, done := r.run(ctx)
		switch {
		case done && last == nil:
			return nil
		case done:
			return r.mention(last)
		}
		c.setLeader("")
		if r.stranger != nil && !r.hopeful { // only its refusal is an answer
			return r.mention(r.stranger)
		}
		// What became of a change is worth the longer wait.
		tired := r.lost == nil && !c.now().Before(until)
		if !r.answered || r.hangups == maxHangups || n == maxRounds || tired || c.pause(ctx, pause) != nil {
			return r.mention(r.summary(last))
		}
		pause = min(2*pause, maxPause)
	}
}

// round is a pass over the addresses, and then the next.
type round struct {
	c         *Client
	op        operation
	f         callFunc
	queue     []string
	tried     []string
	redirects int
	faults    []*Error
	stranger  *Error // what the first master said that does not know the caller
	hopeful   bool   // a master said who leads, or may serve soon

	// Over all rounds:

	answered bool   // a master was there, so that going round again makes sense
	hangups  int    // the last rounds in which no address gave an answer of an admin service
	lost     *Error // the first attempt that may have been served, where op changes something
}

// run returns the last failure, and whether it (or its absence) is final.
func (r *round) run(ctx context.Context) (last *Error, done bool) {
	onlyHangups := true
	for len(r.queue) > 0 {
		address := r.queue[0]
		r.queue = r.queue[1:]
		if slices.Contains(r.tried, address) {
			continue
		}
		r.tried = append(r.tried, address)
		e, v := r.c.attempt(ctx, address, r.op, r.f)
		if e == nil {
			r.c.setLeader(address)
			if r.op.served != nil {
				r.op.served(address)
			}
			return nil, true
		}
		if r.settled(e, v) {
			return e, true
		}
		r.hopeful = r.hopeful || e.perhapsMaster()
		r.answered = r.answered || r.hopeful
		onlyHangups = onlyHangups && e.strange()
		last = worse(last, e)
		r.faults = append(r.faults, e)
		if over(ctx) {
			return r.ended(ctx, e), true
		}
	}
	r.hangups++
	if !onlyHangups || r.op.kind != reading {
		r.hangups = 0 // to learn what became of a change is worth the longer wait
	}
	return last, false
}

// settled takes in a failure, and reports whether nobody else is to be asked.
func (r *round) settled(e *Error, v verdict) bool {
	switch {
	case v == final && e.Code == codeUnauthenticated && r.op.only == "":
		// Nothing was done, and what is amiss may be this master's: it trusts other CAs than the rest.
		r.stranger = cmp.Or(r.stranger, e)
	case v == final:
		return true
	case v == ambiguous && r.op.kind != reading && e.Code != CodeUnavailable:
		if r.lost == nil {
			r.lost = e
		}
		if r.op.kind == once {
			return true
		}
	case v == ambiguous && r.op.kind == once: // an answer, which says that nothing was done
		return true
	case e.Code == CodeNotLeader:
		r.hopeful = true
		r.follow(e.leader)
	}
	return false
}

// perhapsMaster reports whether a master may have been there that serves soon.
func (e *Error) perhapsMaster() bool {
	return e.Code == CodeUnavailable || e.Code == CodeOutcomeUnknown || e.Code == CodeConnectionLost
}

// strange reports whether nothing that an admin service says was heard.
func (e *Error) strange() bool { return e.Code == CodeConnectionLost || e.Code == CodeBadReply }

// follow puts the leader that a master named at the head of the queue. The name is
// a peer's word: it is used only if it is an address, and only so many times.
func (r *round) follow(leader string) {
	if leader == "" || r.redirects == maxRedirects || checkAddress(leader) != nil {
		return
	}
	r.redirects++
	r.queue = append([]string{leader}, r.queue...)
}

// worse picks the failure to tell: that of a master that answered says more than
// that of one that could not be reached.
func worse(a, b *Error) *Error {
	if a != nil && b.Code == CodeUnreachable {
		return a
	}
	return b
}

func (r *round) ended(ctx context.Context, e *Error) *Error {
	if canceled(ctx) {
		return &Error{Code: CodeCanceled, Message: r.op.name + " was given up: " + e.Message, cause: ctx.Err()}
	}
	return e
}

// summary is the error after all rounds.
func (r *round) summary(last *Error) *Error {
	if e := together(r.faults, last.Code, last.cause); e != nil {
		return e
	}
	if last.Code == CodeNotLeader || r.stranger != nil {
		message := fmt.Sprintf("no leader was found; asked %s", strings.Join(r.tried, ", "))
		if r.stranger != nil {
			message += ", of which one does not know the caller: " + r.stranger.Message
		} else if last.Message != "" {
			message += "; the last answer was: " + last.Message
		}
		return &Error{
			Code:    CodeNotLeader,
			Message: message,
			Next:    "try again in a few seconds; if it stays so, look at every master with: lancemaster health",
			cause:   last,
		}
	}
	return last
}

// mention turns the final failure of a call that an earlier attempt may have
// carried out into one that says so.
func (r *round) mention(last *Error) *Error {
	if r.lost == nil {
		return last
	}
	switch last.Code {
	case CodeUnreachable, CodeTimeout, CodeCanceled, CodeConnectionLost, CodeBadReply, CodeNotLeader, CodeUnavailable, CodeOutcomeUnknown:
		return unknownOutcome(r.op, r.lost)
	}
	told := *last
	told.Message += fmt.Sprintf(" (an earlier attempt got no answer: %s)", r.lost.Message)
	return &told
}

// attempt makes the call once at one address.
func (c *Client) attempt(ctx context.Context, address string, op operation, f callFunc) (failed *Error, v verdict) {
	if c.isClosed() {
		return &Error{Code: CodeCanceled, Message: "this client is closed"}, final
	}
	if e := c.inTheClear(address); e != nil {
		return e, elsewhere
	}
	if c.cfg.Stale != nil && op.kind == reading && !op.silent {
		var told Staleness
		f = c.stale(address, f, &told)
		defer func() {
			if failed == nil {
				c.cfg.Stale(told)
			}
		}()
	}
	attemptCtx, cancel := context.WithTimeout(ctx, c.cfg.CallTimeout+op.extra)
	defer cancel()
	if op.kind == reading {
		if k := c.takeIdle(address); k != nil {
			err := k.use(attemptCtx, f)
			c.giveBack(address, k)
			if err == nil {
				return nil, final
			}
			if k.fit || over(attemptCtx) {
				e, v := judge(ctx, attemptCtx, address, err)
				return c.unshown(e, address, k.withheld), v
			}
			// The peer closed the connection while it was idle, most likely.
		}
	}
	k, err := c.dial(attemptCtx, address)
	if err != nil {
		e, v := notSent(ctx, address, err)
		return c.unshown(e, address, false), v
	}
	err = k.use(attemptCtx, f)
	c.giveBack(address, k)
	if err == nil {
		return nil, final
	}
	e, v := judge(ctx, attemptCtx, address, err)
	return c.unshown(e, address, k.withheld), v
}

// over reports whether ctx has ended, or is about to: a socket's deadline can strike
// a moment before the context's own.
func over(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && !time.Now().Before(deadline)
}
