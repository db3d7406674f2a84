package client

import (
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
)

// withheldError is a failure to connect where the caller has a certificate that was not shown.
type withheldError struct{ error }

func (e *withheldError) Unwrap() error { return e.error }

// presenting is what a connection is made with. TLS shows a certificate only to a server that accepts the CA
// which signed it, and says nothing where it shows none: withheld is set then.
func presenting(cfg *tls.Config, withheld *bool) *tls.Config {
	if cfg == nil || len(cfg.Certificates) == 0 || cfg.GetClientCertificate != nil {
		return cfg
	}
	own := cfg.Clone()
	own.GetClientCertificate = func(asked *tls.CertificateRequestInfo) (*tls.Certificate, error) {
		for i := range cfg.Certificates {
			if asked.SupportsCertificate(&cfg.Certificates[i]) == nil {
				return &cfg.Certificates[i], nil
			}
		}
		*withheld = true
		return &tls.Certificate{}, nil
	}
	return own
}

// unshown corrects what a master says to a caller whose certificate was withheld from it: that none was given.
func (c *Client) unshown(e *Error, address string, withheld bool) *Error {
	var failed *withheldError
	if e == nil || !withheld && !errors.As(e.cause, &failed) {
		return e
	}
	m := misfit{
		address: address, verb: "talk to", next: nextOwn,
		why: "who calls must be known there, and your certificate was not shown, because the CA that signed it is not accepted there",
	}
	switch alert := alerted(e.cause); {
	case e.Code == codeUnauthenticated && c.cfg.Token == "":
		return &Error{Code: e.Code, Message: fmt.Sprintf("the master at %s does not know you: %s", address, m.why), Next: m.next, cause: e}
	case e.Code == CodeUnreachable && (strings.Contains(alert, "certificate") || alert == "handshake failure"): // of TLS 1.2
		return m.failed(e.Code, e.cause)
	}
	return e
}
