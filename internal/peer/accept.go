package peer

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"
)

// serve does the accepting side of a connection until it ends, or until Raft has taken it over.
func (l *link) serve() {
	kind, err := l.welcome()
	if err != nil {
		l.kill()
		l.e.handshakeFailed(l, err)
		return
	}
	if kind == KindRaft {
		l.e.stream.arrived(l)
		return
	}
	defer l.kill()
	l.serveCalls()
}

// handshakeFailed counts a connection that did not come about, and logs what its operator can do
// something about.
func (e *Endpoint) handshakeFailed(l *link, err error) {
	var refusal *Refusal
	if errors.As(err, &refusal) {
		return // counted and logged where it was found
	}
	if e.isClosed() {
		return
	}
	reason := failureReason(err)
	e.metrics.handshakeFailures.WithLabelValues(string(reason)).Inc()
	host, _, splitErr := net.SplitHostPort(l.remote())
	if splitErr != nil {
		host = l.remote()
	}
	switch reason {
	case failedForeign:
		hint := ""
		if e.cfg.ServerTLS == nil {
			hint = "; if it is another master, both must use TLS or neither"
		}
		e.told.failure(host, string(reason), fmt.Sprintf("closed a connection on the Raft port that is not of a lancemaster node%s", hint), err)
	case failedTLS:
		e.told.failure(host, string(reason), "closed a connection on the Raft port whose TLS handshake failed; compare the certificates and authorities of both nodes", err)
	case failedMalformed:
		e.told.failure(host, string(reason), "closed a connection on the Raft port with a handshake that makes no sense; compare the versions of both nodes", err)
	case failedTimeout, failedClosed, failedOther:
		// Probes of load balancers and cut networks look like this.
	}
}

// failure classes a handshake that failed.
type failure string

const (
	failedForeign   failure = "foreign"
	failedTLS       failure = "tls"
	failedMalformed failure = "malformed"
	failedTimeout   failure = "timeout"
	failedClosed    failure = "closed"
	failedOther     failure = "other"
)

var failures = []failure{failedForeign, failedTLS, failedMalformed, failedTimeout, failedClosed, failedOther}

func failureReason(err error) failure {
	switch {
	case errors.Is(err, errForeign):
		return failedForeign
	case errors.Is(err, errMalformed):
		return failedMalformed
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		return failedTimeout
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed),
		errors.Is(err, io.ErrClosedPipe), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return failedClosed
	case ofTLS(err):
		return failedTLS
	default:
		return failedOther
	}
}

// ofTLS says that TLS is what failed. With TLS 1.3 the other side's no to a certificate comes after this
// side's handshake, where an answer is read.
func ofTLS(err error) bool {
	var handshake *tlsError
	var alert *net.OpError
	return errors.As(err, &handshake) || errors.As(err, &alert) && alert.Op == "remote error"
}

// OfTLS says that a call failed since one side does not take the other's certificate, or speaks no TLS.
func OfTLS(err error) bool {
	var refusal *Refusal
	if errors.As(err, &refusal) {
		return refusal.Code == CodeWrongCertificate
	}
	return ofTLS(err)
}

// welcome does the accepting side's handshake. Its error is a *Refusal when one side refused.
func (l *link) welcome() (Kind, error) {
	ctx, cancel := context.WithTimeout(l.e.base, l.e.cfg.HandshakeTimeout)
	defer cancel()
	if err := l.raw.SetDeadline(time.Now().Add(l.e.cfg.HandshakeTimeout)); err != nil {
		return "", err
	}
	if l.e.cfg.ServerTLS != nil {
		config, err := l.e.cfg.ServerTLS()
		if err == nil && config == nil {
			config = &tls.Config{MinVersion: tls.VersionTLS12}
		}
		if err != nil {
			return "", &tlsError{err}
		}
		if err := l.secure(ctx, config); err != nil {
			return "", err
		}
	}
	var first hello
	version, err := readMessage(l.conn, &first)
	if version != 0 && version != protocolVersion {
		err = nil
	}
	if err != nil {
		return "", err
	}
	self := l.e.cfg.Self()
	if refusal := l.consider(version, first, self); refusal != nil {
		l.e.refused(first.Kind, first.Identity.NodeID, l.remote(), refusal)
		return "", errors.Join(refusal, l.tell(answer{Identity: self, Refusal: refusal}))
	}
	if err := writeMessage(l.conn, answer{Identity: self}); err != nil {
		return "", err
	}
	var last verdict
	if _, err := readMessage(l.conn, &last); err != nil {
		return "", err
	}
	if last.Refusal != nil {
		last.Refusal.ByOther = true
		l.e.refused(first.Kind, first.Identity.NodeID, l.remote(), last.Refusal)
		return "", last.Refusal
	}
	l.welcomed(first.Identity.NodeID)
	return first.Kind, l.raw.SetDeadline(time.Time{})
}

// tell sends a refusal, and waits for the other side to take note: closing at once could overtake the
// text.
func (l *link) tell(message any) error {
	if err := writeMessage(l.conn, message); err != nil {
		return err
	}
	// The other side closes when it has read this. What it says before is not of interest.
	_, _ = io.CopyN(io.Discard, l.conn, maxHandshake)
	return nil
}

// consider decides about a hello, and takes the connection in if all is well.
func (l *link) consider(version byte, first hello, self Identity) *Refusal {
	if version != protocolVersion {
		return otherVersion(version)
	}
	if first.Kind != KindRaft && first.Kind != KindCall {
		return refuse(CodeUnsupportedProtocol, "node %s knows no connections of kind %q; upgrade it", self.NodeID, first.Kind)
	}
	if err := first.Identity.check(); err != nil {
		return refuse(CodeRefused, "the identity is not one of a lancemaster node: %v", err)
	}
	if refusal := l.checkHolder(first.Identity); refusal != nil {
		return refusal
	}
	if first.Want != "" && first.Want != self.NodeID {
		return wrongNode(first.Want, self.NodeID, string(l.e.advertise))
	}
	member, refusal := l.e.judge(first.Kind, first.Identity)
	if refusal != nil {
		return refusal
	}
	if first.Kind == KindRaft && l.e.stream.isClosed() {
		return refuse(CodeStopping, "node %s is stopping", self.NodeID)
	}
	return l.identify(first.Kind, first.Identity, self, member)
}

// checkHolder holds what the dialler says of itself against its certificate: a master must not speak
// for another one.
func (l *link) checkHolder(other Identity) *Refusal {
	secure, ok := l.conn.(*tls.Conn)
	if !ok || l.e.cfg.Holder == nil {
		return nil
	}
	holder, err := l.e.cfg.Holder(secure.ConnectionState())
	if err != nil {
		return refuse(CodeWrongCertificate, "the certificate of node %s does not say which master holds it: %v", other.NodeID, err)
	}
	if holder != other.NodeID {
		return refuse(CodeWrongCertificate, "the certificate of node %s is that of node %s; give each master its own (`lancemaster tls cert --role master --node %s`)",
			other.NodeID, holder, other.NodeID)
	}
	return nil
}

// wrongNode is the refusal of a connection that has arrived elsewhere than it was meant to.
func wrongNode(want, got, at string) *Refusal {
	return refuse(CodeWrongNode, "the address %s leads to node %s, not to node %s; correct the address of %s in cluster.members, or node_id where it runs",
		at, got, want, want)
}
