package peer

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"
)

// dial connects to a node and does the dialling side's handshake. The error is a *Refusal when one
// side refused. nodeID is whom the caller means, or empty. membersOnly refuses a stranger.
func (e *Endpoint) dial(ctx context.Context, kind Kind, nodeID, at string, membersOnly bool) (*link, error) {
	ctx, cancel := context.WithTimeout(ctx, e.cfg.HandshakeTimeout)
	defer cancel()
	stop := context.AfterFunc(e.base, cancel)
	defer stop()
	raw, err := e.cfg.Dial(ctx, "tcp", at)
	if err != nil {
		return nil, e.dialError(err)
	}
	l, err := e.track(raw, false)
	if err != nil {
		return nil, e.dialError(err)
	}
	cut := context.AfterFunc(ctx, l.kill)
	err = l.greet(ctx, kind, nodeID, at, membersOnly)
	if !cut() && err == nil {
		err = context.Cause(ctx)
	}
	if err == nil {
		return l, nil
	}
	l.kill()
	name := nodeID
	if name == "" {
		name = at
	}
	var refusal *Refusal
	if errors.As(err, &refusal) {
		e.refused(kind, name, at, refusal)
		return nil, refusal
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	reason := failureReason(err)
	e.metrics.handshakeFailures.WithLabelValues(string(reason)).Inc()
	switch reason {
	case failedTLS, failedForeign, failedMalformed:
		// Raft tells of a failed dial at debug level only, and these do not pass by themselves.
		e.told.failure(name, string(reason), "cannot talk to another master", err)
	case failedTimeout, failedClosed, failedOther:
	}
	return nil, e.dialError(err)
}

// dialError says in whose name a dial has failed, where that is this side's end.
func (e *Endpoint) dialError(err error) error {
	if e.isClosed() {
		return fmt.Errorf("the endpoint of the Raft port is closed: %w", err)
	}
	return err
}

// greet does the dialling side's handshake.
func (l *link) greet(ctx context.Context, kind Kind, nodeID, at string, membersOnly bool) error {
	if err := l.raw.SetDeadline(time.Now().Add(l.e.cfg.HandshakeTimeout)); err != nil {
		return err
	}
	if l.e.cfg.ClientTLS != nil {
		config, err := l.e.clientTLS(nodeID, at)
		if err != nil {
			return &tlsError{err}
		}
		if err := l.secure(ctx, config); err != nil {
			return err
		}
	}
	self := l.e.cfg.Self()
	if err := writeMessage(l.conn, hello{Kind: kind, Want: nodeID, Identity: self}); err != nil {
		return err
	}
	var reply answer
	version, err := readMessage(l.conn, &reply)
	if reply.Refusal != nil {
		reply.Refusal.ByOther = true
		return reply.Refusal
	}
	if version != 0 && version != protocolVersion {
		return otherVersion(version)
	}
	if errors.Is(err, errForeign) {
		return fmt.Errorf("%s: %w; if it is a master, both must use TLS or neither", at, err)
	}
	if failureReason(err) == failedClosed {
		return fmt.Errorf("%s closed the connection instead of an answer: %w; both sides must use TLS or neither, and its log may say more", at, err)
	}
	if err != nil {
		return fmt.Errorf("no answer of a master at %s: %w", at, err)
	}
	if refusal := l.weigh(kind, nodeID, at, reply.Identity, self, membersOnly); refusal != nil {
		// The other side is told for its own log; that it hears is not needed.
		_ = writeMessage(l.conn, verdict{Refusal: refusal})
		return refusal
	}
	if err := writeMessage(l.conn, verdict{}); err != nil {
		return err
	}
	l.welcomed(reply.Identity.NodeID, at)
	return l.raw.SetDeadline(time.Time{})
}

// weigh decides about an answer.
func (l *link) weigh(kind Kind, want, at string, other, self Identity, membersOnly bool) *Refusal {
	if err := other.check(); err != nil {
		return refuse(CodeRefused, "the answer at %s is not one of a lancemaster node: %v", at, err)
	}
	if want != "" && other.NodeID != want {
		return wrongNode(want, other.NodeID, at)
	}
	member, refusal := l.e.judge(kind, other)
	if refusal != nil {
		return refusal
	}
	if membersOnly && !member {
		return refuse(CodeMembersOnly, "node %s at %s is not a member of this cluster as node %s knows it; it is asked nothing that is for members", other.NodeID, at, self.NodeID)
	}
	return l.identify(kind, other, self, member)
}

// clientTLS returns the configuration for one connection out.
func (e *Endpoint) clientTLS(nodeID, at string) (*tls.Config, error) {
	config, err := e.cfg.ClientTLS(nodeID)
	if err != nil {
		return nil, err
	}
	if config == nil {
		config = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if config.ServerName == "" {
		host, _, err := net.SplitHostPort(at)
		if err != nil {
			return nil, err
		}
		config = config.Clone()
		config.ServerName = host
	}
	return config, nil
}
