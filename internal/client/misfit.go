package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"

	"github.com/lancemaster/lancemaster/internal/thriftnet"
)

// What to do where an address cannot be called, or not in this way.
const (
	nextStart = "start a master (lancemaster dev starts one to try things on), or name one that runs with --addr or LANCEMASTER_ADDR"
	nextPort  = "name a master's admin service with --addr or LANCEMASTER_ADDR (default port 9021), not its report, HTTP or Raft port"
	nextCA    = "give the CA that vouches for the masters with --tls-ca or LANCEMASTER_TLS_CA"
	nextClear = nextCA + ", or call the master from its own machine or through a tunnel to it, at 127.0.0.1"
	nextCert  = "give your certificate with --tls-cert and --tls-key, or LANCEMASTER_TLS_CERT and LANCEMASTER_TLS_KEY"
	nextPlain = "leave out --tls-ca, --tls-cert and --tls-key (unset LANCEMASTER_TLS_CA, LANCEMASTER_TLS_CERT and LANCEMASTER_TLS_KEY), or name an admin service that speaks TLS"
	nextOwn   = "use a certificate that is valid now, names a role that may call here (lancemaster tls cert) and is signed by a CA in the masters' tls.ca_file"
	nextName  = "call the masters by a name that is in their certificates, or make certificates that name this address too: lancemaster tls cert --host"
	nextRenew = "renew the master's certificate, which is read again by itself (lancemaster tls cert), or set this machine's clock"
)

// misfit is why an address is not an admin service that can be called as it was. Addresses that have the same one are told of together.
type misfit struct {
	address string
	verb    string // cannot reach, and such
	why     string
	next    string
}

func (m misfit) failed(code string, cause error) *Error {
	return &Error{Code: code, Message: m.text(m.address), Next: m.next, misfit: &m, cause: cause}
}

func (m misfit) text(addresses string) string {
	return fmt.Sprintf("cannot %s %s: %s", m.verb, addresses, m.why)
}

// together tells of failures at several addresses, of which some may be the same. It is nil where one
// was of another kind, or there is none.
func together(faults []*Error, code string, cause error) *Error {
	if len(faults) == 0 {
		return nil
	}
	var kinds []misfit
	var addresses []string
	for _, f := range faults {
		if f.misfit == nil {
			return nil
		}
		m := *f.misfit
		m.address = ""
		i := slices.Index(kinds, m)
		if i < 0 {
			i = len(kinds)
			kinds, addresses = append(kinds, m), append(addresses, "")
		}
		addresses[i] += ", " + f.misfit.address
	}
	e := &Error{Code: code, cause: cause}
	for i, m := range kinds {
		if i > 0 {
			e.Message += "; "
		}
		e.Message += m.text(addresses[i][2:])
		// That nothing runs there is the least that can be mended from here.
		if e.Next == "" || e.Next == nextStart {
			e.Next = m.next
		}
	}
	return e
}

// notConnected says why no connection came about.
func notConnected(address string, err error) misfit {
	m := misfit{address: address, verb: "reach", why: innermost(err).Error(), next: nextStart}
	var (
		record    tls.RecordHeaderError
		authority x509.UnknownAuthorityError
		name      x509.HostnameError
		invalid   x509.CertificateInvalidError
	)
	switch {
	case errors.As(err, &record):
		m.verb, m.why, m.next = "talk to", "no TLS is spoken there", nextPlain
		if strings.HasPrefix(string(record.RecordHeader[:]), "HTTP") {
			m.why, m.next = "an HTTP server is there", nextPort
		}
	case errors.As(err, &authority):
		m.verb, m.why, m.next = "trust", "the certificate there is of a CA that is not trusted here", nextCA
	case errors.As(err, &name):
		m.verb, m.why, m.next = "trust", "the certificate there does not name this address", nextName
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		m.verb, m.why, m.next = "trust", "the certificate there has expired, or is not valid yet", nextRenew
	case errors.As(err, &invalid):
		m.verb, m.why, m.next = "trust", innermost(err).Error(), nextCA
	case alerted(err) != "":
		return m.refused(alerted(err))
	case hungUp(err):
		m.verb, m.why, m.next = "talk to", "the connection was closed on TLS, which is not spoken there, most likely", nextPlain
	case errors.Is(err, context.DeadlineExceeded):
		m.why = "no answer in time"
	}
	return m
}

// hungUp reports whether the other end closed a connection while TLS was agreed on.
func hungUp(err error) bool {
	var op *net.OpError
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.As(err, &op) && op.Op == "read" && errors.Is(err, syscall.ECONNRESET)
}

// notServed says why an answer is none of an admin service's; nil where it may be one. With TLS nothing is
// read before the handshake is done, so a call that fails in it was not served. Of an HTTP server nobody
// knows what is behind it.
func notServed(address string, err error) (*Error, verdict) {
	m := misfit{address: address, verb: "talk to"}
	var foreign *thriftnet.ForeignError
	switch alert := alerted(err); {
	case errors.As(err, &foreign) && foreign.Speaks == "TLS":
		m.why, m.next = "TLS is needed there, and the call was made without it", nextCA+"; where certificates are asked for, "+nextCert
		return m.failed(CodeBadReply, err), elsewhere
	case errors.As(err, &foreign):
		m.why, m.next = "an "+foreign.Speaks+" server is there", nextPort
		return m.failed(CodeBadReply, err), ambiguous
	case strings.Contains(alert, "certificate"): // which is judged before anything is read
		return m.refused(alert).failed(CodeUnreachable, err), elsewhere
	}
	return nil, ambiguous
}

// refused is what the other end said of this one's TLS.
func (m misfit) refused(alert string) misfit {
	m.verb = "talk to"
	switch alert {
	case "certificate required":
		m.why, m.next = "a certificate is asked for there, and none was given", nextCert
	case "protocol version not supported", "handshake failure":
		m.why, m.next = "TLS is refused there: "+alert, nextPort
	default:
		m.why, m.next = "the certificate that was given is refused there: "+alert, nextOwn
	}
	return m
}

// alerted is the alert that ended a TLS handshake; empty where none did. With TLS 1.3 the answer to a
// certificate comes when this side is done with the handshake and has sent its call, which then nobody
// reads.
func alerted(err error) string {
	var op *net.OpError
	if !errors.As(err, &op) || op.Op != "remote error" {
		return ""
	}
	return strings.TrimPrefix(op.Err.Error(), "tls: ")
}

// inTheClear refuses to send the caller's token to another machine without TLS: whoever is on the way would
// have it. A name other than localhost counts as another machine's, since what it leads to may change. nil
// where the token may be sent.
func (c *Client) inTheClear(address string) *Error {
	if c.cfg.Token == "" || c.cfg.TLS != nil || strings.HasPrefix(address, "unix:") {
		return nil
	}
	host, _, err := net.SplitHostPort(address)
	if err == nil && (host == "localhost" || loopback(host)) {
		return nil
	}
	m := misfit{address: address, verb: "send the access token to", why: "without TLS anybody on the way could read it; nothing was sent", next: nextClear}
	return m.failed(CodeUnreachable, nil)
}

func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}
