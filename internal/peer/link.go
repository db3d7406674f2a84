package peer

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"time"
)

// class says who is at the other end of a connection, and so whose room it takes.
type class int

const (
	unidentified class = iota
	stranger
	memberCall
	memberRaft
)

func (c class) String() string {
	switch c {
	case stranger:
		return "stranger"
	case memberCall:
		return "call"
	case memberRaft:
		return "raft"
	case unidentified:
	}
	return "unidentified"
}

var classes = []class{unidentified, stranger, memberCall, memberRaft}

// link is one connection, in either direction.
type link struct {
	e        *Endpoint
	incoming bool
	// raw is the connection below TLS. Closing it ends everything at once; closing TLS may wait for
	// a peer that does not read.
	raw net.Conn
	// gone is closed when the connection has been.
	gone chan struct{}

	mu    sync.Mutex
	conn  net.Conn             // raw, or TLS over it
	tls   *tls.ConnectionState // after the handshake; nil over plain TCP
	class class
	kind  Kind
	other Identity
	told  Identity // what this side said of itself
	since time.Time
	busy  bool // a call is in progress
	dead  bool
}

// track registers a connection, so that Close finds it.
func (e *Endpoint) track(raw net.Conn, incoming bool) (*link, error) {
	l := &link{e: e, incoming: incoming, raw: raw, conn: raw, gone: make(chan struct{}), since: time.Now()}
	e.mu.Lock()
	closed := e.closed
	if !closed {
		e.links[l] = struct{}{}
	}
	e.mu.Unlock()
	if closed {
		return nil, errors.Join(net.ErrClosed, raw.Close())
	}
	return l, nil
}

// kill closes the connection and forgets it. It may be called more than once.
func (l *link) kill() {
	l.mu.Lock()
	dead := l.dead
	l.dead = true
	l.mu.Unlock()
	if dead {
		return
	}
	// Nobody waits for what closing a connection says.
	_ = l.raw.Close()
	close(l.gone)
	l.e.mu.Lock()
	delete(l.e.links, l)
	l.e.mu.Unlock()
}

func (l *link) remote() string {
	if addr := l.raw.RemoteAddr(); addr != nil {
		return addr.String()
	}
	return ""
}

func (l *link) isBusy() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.busy
}

// setBusy notes that a call begins or has ended.
func (l *link) setBusy(busy bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.busy, l.since = busy, time.Now()
}

func (l *link) peer() Identity {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.other
}

// secure does the TLS handshake where TLS is configured. server is nil for the dialling side.
func (l *link) secure(ctx context.Context, config *tls.Config) error {
	if config == nil {
		return nil
	}
	var conn *tls.Conn
	if l.incoming {
		conn = tls.Server(l.raw, config)
	} else {
		conn = tls.Client(l.raw, config)
	}
	if err := conn.HandshakeContext(ctx); err != nil {
		return &tlsError{err}
	}
	state := conn.ConnectionState()
	l.mu.Lock()
	l.conn, l.tls = conn, &state
	l.mu.Unlock()
	return nil
}

// outlived refuses to go on with a connection whose certificate has expired since its handshake, or whose CA
// is trusted no longer; nil when all is well. The refusal is counted and logged here; the caller ends the
// connection.
func (l *link) outlived() *Refusal {
	l.mu.Lock()
	state, kind, node := l.tls, l.kind, l.other.NodeID
	l.mu.Unlock()
	if state == nil || l.e.cfg.Recheck == nil {
		return nil
	}
	err := l.e.cfg.Recheck(*state)
	if err == nil {
		return nil
	}
	refusal := refuse(CodeWrongCertificate, "the connection with node %s has outlived its certificate: %v", node, err)
	l.e.metrics.refused(refusal)
	l.e.told.outlived(kind, node, l.remote(), err)
	return refusal
}

// tlsError is a failed TLS handshake.
type tlsError struct{ err error }

func (t *tlsError) Error() string { return "TLS handshake: " + t.err.Error() }
func (t *tlsError) Unwrap() error { return t.err }

// room is how many incoming connections of one class there may be.
func (e *Endpoint) room(c class) int {
	switch c {
	case memberCall:
		return e.cfg.MaxConns / 2
	case memberRaft:
		return e.cfg.MaxConns / 4
	default:
		return e.cfg.MaxConns / 8
	}
}

// idlest counts the incoming connections of a class, and of one node if named, and returns the one that
// has been idle longest; nil when each has a call in progress.
func (e *Endpoint) idlest(c class, node string) (count int, found *link) {
	var foundSince time.Time
	for _, l := range e.snapshot() {
		l.mu.Lock()
		matches := l.incoming && !l.dead && l.class == c && (node == "" || l.other.NodeID == node)
		busy, since := l.busy, l.since
		l.mu.Unlock()
		if !matches {
			continue
		}
		count++
		if !busy && (found == nil || since.Before(foundSince)) {
			found, foundSince = l, since
		}
	}
	return count, found
}

// makeRoom closes idle connections of a class, and of one node if named, until there is room for one
// more below limit. It reports whether it has succeeded.
func (e *Endpoint) makeRoom(c class, node string, limit int) bool {
	for {
		count, idlest := e.idlest(c, node)
		if count < limit {
			return true
		}
		if idlest == nil {
			return false
		}
		idlest.kill()
		e.metrics.evicted.WithLabelValues(c.String()).Inc()
	}
}

// identify notes who is at the other end. It refuses when there is no room.
func (l *link) identify(kind Kind, other, told Identity, member bool) *Refusal {
	as := stranger
	switch {
	case kind == KindRaft:
		as = memberRaft
	case member:
		as = memberCall
	}
	if l.incoming {
		// One at a time, so that no two take the same room.
		l.e.identifying.Lock()
		defer l.e.identifying.Unlock()
		if as == memberRaft {
			l.e.makeRoom(memberRaft, other.NodeID, raftPerNode)
		}
		if !l.e.makeRoom(as, "", l.e.room(as)) {
			return refuse(CodeFull, "node %s has no room for another connection; try again", told.NodeID)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.class, l.kind, l.other, l.told, l.since = as, kind, other, told, time.Now()
	return nil
}

// welcomed notes that the handshake with a member has succeeded.
func (l *link) welcomed(who ...string) {
	l.mu.Lock()
	as, kind := l.class, l.kind
	l.mu.Unlock()
	if as != stranger {
		l.e.told.welcomed(kind, who...)
	}
}
