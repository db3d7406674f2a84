package peer

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"time"
)

// serveCalls answers the calls that come over a connection, one after the other, until it ends. While
// a handler runs, the connection is read on: its end ends the handler's context.
func (l *link) serveCalls() {
	ctx, cancel := context.WithCancel(l.e.base)
	defer cancel()
	last := make(chan struct{}) // closed when the last call has been answered
	close(last)
	defer func() {
		cancel()
		<-last
	}()
	from := bufio.NewReader(l.conn)
	if l.conn.SetReadDeadline(time.Now().Add(serverIdle)) != nil {
		return
	}
	for {
		if _, err := from.Peek(1); err != nil {
			return
		}
		r, err := l.readRequest(from)
		if err != nil {
			if errors.Is(err, errFrame) {
				l.e.cfg.Logger.Warn("closed a connection of another master that sent a call which cannot be read", "node", l.peer().NodeID, "error", err.Error())
			}
			return
		}
		<-last
		if l.e.isClosed() || l.conn.SetReadDeadline(time.Time{}) != nil {
			return
		}
		l.setBusy(true)
		done := make(chan struct{})
		last = done
		go func() {
			defer close(done)
			l.answer(ctx, r)
		}()
	}
}

// readRequest reads one request, whose first byte has come.
func (l *link) readRequest(from io.Reader) (request, error) {
	if err := l.conn.SetReadDeadline(time.Now().Add(l.e.cfg.StallTimeout)); err != nil {
		return request{}, err
	}
	limit := maxRequest + requestOverhead
	if member, refusal := l.e.judge(KindCall, l.peer()); !member || refusal != nil {
		limit = maxStrangerRequest + requestOverhead
	}
	length, err := readLength(from, limit)
	if err != nil {
		return request{}, err
	}
	body, err := readBody(from, length)
	if err != nil {
		return request{}, err
	}
	return decodeRequest(body)
}

// answer runs one call and sends its reply.
func (l *link) answer(ctx context.Context, r request) {
	var answer reply
	var result string
	last := l.outlived()
	if last != nil {
		answer, result = refused(last)
	} else {
		answer, result = l.run(ctx, r)
	}
	if self := l.e.cfg.Self(); self != l.toldIdentity(self) {
		answer.identity = &self
	}
	frame, err := answer.encode()
	if err == nil {
		err = l.conn.SetWriteDeadline(time.Now().Add(writeTimeout))
	}
	if err == nil {
		_, err = l.conn.Write(frame)
	}
	if err != nil {
		l.kill()
		if result == "ok" {
			result = "unanswered"
		}
	}
	l.e.metrics.called(r.method, "in", result)
	l.setBusy(false)
	if last != nil || l.e.isClosed() || l.conn.SetReadDeadline(time.Now().Add(serverIdle)) != nil {
		l.kill()
	}
}

// toldIdentity returns what the other side was told last, and notes what it is told now.
func (l *link) toldIdentity(now Identity) Identity {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.told
	l.told = now
	return before
}

// run finds the handler of a call and runs it.
func (l *link) run(ctx context.Context, r request) (answer reply, result string) {
	from := l.peer()
	handler, known := l.e.cfg.Handlers[r.method]
	member, refusal := l.e.judge(KindCall, from)
	switch {
	case refusal != nil:
	case !known:
		refusal = refuse(CodeUnknownMethod, "node %s has no method %q; upgrade it", l.e.cfg.Self().NodeID, r.method)
	case !member && !handler.Strangers:
		refusal = refuse(CodeMembersOnly, "method %s of node %s is for members of its cluster, and node %s is none as it knows", r.method, l.e.cfg.Self().NodeID, from.NodeID)
	}
	if refusal != nil {
		return l.refusing(refusal)
	}
	limit := handler.Timeout
	if limit <= 0 {
		limit = defaultCallTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, min(limit, r.timeout))
	defer cancel()
	payload, err := contained(ctx, handler, from, r.payload)
	var panicked *panicError
	switch {
	case err == nil && len(payload) <= maxReply:
		return reply{status: statusOK, payload: payload}, "ok"
	case err == nil:
		err = fmt.Errorf("the reply to %s is too large: %d bytes, at most %d are sent", r.method, len(payload), maxReply)
	case errors.As(err, &refusal):
		return l.refusing(refusal)
	case errors.As(err, &panicked):
		l.e.cfg.Logger.Error("the handler of a call between masters panicked", "method", r.method, "node", from.NodeID, "panic", panicked.value, "stack", panicked.stack)
		return reply{status: statusError, payload: []byte(shorten(panicked.Error()))}, "panic"
	}
	return reply{status: statusError, payload: []byte(shorten(err.Error()))}, "error"
}

func (l *link) refusing(refusal *Refusal) (reply, string) {
	l.e.metrics.refused(refusal)
	return refused(refusal)
}

// refused is the reply that says so.
func refused(refusal *Refusal) (reply, string) {
	// A refusal is two texts: it can be encoded.
	body, _ := json.Marshal(&Refusal{Code: refusal.Code, Message: shorten(refusal.Message)})
	return reply{status: statusRefused, payload: body}, "refused"
}

// panicError is a handler's panic.
type panicError struct{ value, stack string }

func (p *panicError) Error() string {
	return "the handler failed in its middle; what it has done is not known; see the log of that node"
}

// contained runs a handler and turns its panic into an error.
func contained(ctx context.Context, handler Handler, from Identity, payload []byte) (answer []byte, err error) {
	defer func() {
		if value := recover(); value != nil {
			answer, err = nil, &panicError{fmt.Sprint(value), string(debug.Stack())}
		}
	}()
	return handler.Do(ctx, from, payload)
}
