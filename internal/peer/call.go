package peer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"time"
)

// CallError says that a call got no answer.
type CallError struct {
	// Sent says that the request may have reached the other side, and may yet be acted on. False
	// says that it certainly has not.
	Sent bool
	Err  error
}

func (c *CallError) Error() string {
	if c.Sent {
		return fmt.Sprintf("no answer, and the other side may have acted: %v", c.Err)
	}
	return fmt.Sprintf("not sent: %v", c.Err)
}

func (c *CallError) Unwrap() error { return c.Err }

// RemoteError is the error that the other side's handler returned.
type RemoteError struct{ Message string }

func (r *RemoteError) Error() string { return r.Message }

// Call calls a method of the node at an address, once: it never repeats a request. nodeID is the node
// that is meant, or empty for whoever is there. It returns the reply and who gave it, as that node
// says it is now. A ctx without a deadline gets one of 30 s; when it ends early, the handler's ends
// too.
//
// The error is a *Refusal when one side refused and no handler ran, a *RemoteError when the handler
// did, and otherwise a *CallError. The other side's identity is zero if it is not known.
func (e *Endpoint) Call(ctx context.Context, nodeID, address, method string, payload []byte) ([]byte, Identity, error) {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, defaultCallTimeout)
		defer cancel()
	}
	answer, other, err := e.call(ctx, nodeID, address, method, payload)
	e.metrics.called(method, "out", callResult(err))
	return answer, other, err
}

// callResult classes how a call went, for a metric's label.
func callResult(err error) string {
	var call *CallError
	var refusal *Refusal
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &refusal):
		return "refused"
	case !errors.As(err, &call):
		return "error"
	case call.Sent:
		return "unanswered"
	default:
		return "not_sent"
	}
}

func (e *Endpoint) call(ctx context.Context, nodeID, address, method string, payload []byte) ([]byte, Identity, error) {
	if len(payload) > maxRequest || method == "" || len(method) > maxMethod {
		return nil, Identity{}, &CallError{Err: fmt.Errorf("a call of %q with %d bytes exceeds the bounds: %d bytes, and a name of 1 to %d", method, len(payload), maxRequest, maxMethod)}
	}
	at, err := e.pool.enter(ctx, target{nodeID, address, method})
	if err != nil {
		return nil, Identity{}, &CallError{Err: err}
	}
	defer at.leave()
	handler, known := e.cfg.Handlers[method]
	membersOnly := !known || !handler.Strangers
	for {
		answer, other, again, err := at.attempt(ctx, membersOnly, payload)
		if !again {
			return answer, other, err
		}
	}
}

// attempt makes a call on one connection. again says that the other side refused it, and no handler ran,
// because the certificate that an idle connection was made with is good no more: this node may have another
// by now, which a new connection shows. There are only so many idle ones, so that comes to an end.
func (at *place) attempt(ctx context.Context, membersOnly bool, payload []byte) (answer []byte, other Identity, again bool, err error) {
	c, idle, err := at.get(ctx, membersOnly)
	if err != nil {
		var refusal *Refusal
		if errors.As(err, &refusal) {
			return nil, Identity{}, false, refusal
		}
		return nil, Identity{}, false, &CallError{Err: err}
	}
	r, err := c.exchange(ctx, at.target.method, payload)
	if err != nil {
		c.link.kill()
		return nil, c.link.peer(), false, err
	}
	if r.identity != nil {
		c.renew(*r.identity)
	}
	other = c.link.peer()
	refusal, err := r.refusal()
	if err != nil {
		c.link.kill()
		return nil, other, false, &CallError{Sent: true, Err: err}
	}
	if refusal != nil && refusal.Code == CodeWrongCertificate {
		c.link.kill() // the other side closes it too: another call must not be lost on it
		if idle {
			return nil, other, true, nil
		}
	} else {
		at.put(c)
	}
	switch {
	case refusal != nil:
		at.pool.e.metrics.refused(refusal)
		return nil, other, false, refusal
	case r.status == statusError:
		return nil, other, false, &RemoteError{Message: string(r.payload)}
	}
	return r.payload, other, false, nil
}

// refusal is what the other side said when it refused; nil when it did not.
func (r reply) refusal() (*Refusal, error) {
	if r.status != statusRefused {
		return nil, nil //nolint:nilnil // neither a refusal nor a fault
	}
	refusal := &Refusal{Code: CodeRefused}
	if err := json.Unmarshal(r.payload, refusal); err != nil {
		return nil, fmt.Errorf("%w: %w", errFrame, err)
	}
	refusal.ByOther = true
	return refusal, nil
}

// caller is the calling end of a connection. One call uses it at a time.
type caller struct {
	link    *link
	replies chan reply
	lost    chan struct{} // closed when nothing more can be read
	err     error         // set before lost is closed
	expiry  *time.Timer   // while it is idle
}

// newCaller starts reading: also the end of an idle connection is then noticed at once.
func (e *Endpoint) newCaller(l *link) (*caller, error) {
	c := &caller{link: l, replies: make(chan reply), lost: make(chan struct{})}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, errClosed
	}
	e.running.Go(c.read)
	return c, nil
}

var errClosed = errors.New("the endpoint of the Raft port is closed")

// read passes replies on until the connection ends.
func (c *caller) read() {
	defer close(c.lost)
	defer c.link.kill()
	for {
		length, err := readLength(c.link.conn, maxReply+replyOverhead)
		if err == nil && !c.link.isBusy() {
			err = fmt.Errorf("%w: a reply to nothing", errFrame)
		}
		var body []byte
		if err == nil {
			body, err = readBody(c.link.conn, length)
		}
		var r reply
		if err == nil {
			r, err = decodeReply(body)
		}
		if err != nil {
			c.err = err
			return
		}
		select {
		case c.replies <- r:
		case <-c.link.gone:
			c.err = net.ErrClosed
			return
		}
	}
}

// exchange sends one request and waits for its reply.
func (c *caller) exchange(ctx context.Context, method string, payload []byte) (reply, error) {
	deadline, _ := ctx.Deadline()
	frame := request{timeout: time.Until(deadline), method: method, payload: payload}.encode()
	c.link.setBusy(true)
	defer c.link.setBusy(false)
	if ctx.Err() != nil {
		return reply{}, &CallError{Err: context.Cause(ctx)}
	}
	// A peer that does not read must not keep this write; the end of the connection ends it.
	stop := context.AfterFunc(ctx, c.link.kill)
	defer func() {
		if !stop() {
			c.link.kill() // it is about to be; nobody shall use it again
		}
	}()
	if _, err := c.link.conn.Write(frame); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return reply{}, &CallError{Sent: true, Err: err}
	}
	select {
	case r := <-c.replies:
		return r, nil
	case <-ctx.Done():
		return reply{}, &CallError{Sent: true, Err: context.Cause(ctx)}
	case <-c.lost:
		err := c.err
		switch {
		case ctx.Err() != nil:
			err = context.Cause(ctx)
		case c.link.e.isClosed():
			err = errClosed
		}
		return reply{}, &CallError{Sent: true, Err: fmt.Errorf("the connection ended: %w", err)}
	}
}

// renew notes what the other side says of itself now.
func (c *caller) renew(other Identity) {
	c.link.mu.Lock()
	defer c.link.mu.Unlock()
	if other.NodeID == c.link.other.NodeID && other.InstanceID == c.link.other.InstanceID {
		c.link.other = other
	}
}
