package auth

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lancemaster/lancemaster/internal/job"
)

// Service is one that knows its callers; it labels the metric.
type Service string

// The services. Between masters, package peer counts.
const (
	ServiceAdmin  Service = "admin"
	ServiceReport Service = "report"
	ServiceHTTP   Service = "http"
)

// Reason says why a caller was not let in. The values are few and fixed, fit for a metric's label.
type Reason string

// The reasons of an Error.
const (
	ReasonNoCredentials        Reason = "no_credentials"
	ReasonMalformedToken       Reason = "malformed_token"
	ReasonUnknownToken         Reason = "unknown_token"
	ReasonLockedOut            Reason = "locked_out"
	ReasonNotCurrent           Reason = "not_current" // the token is unknown, and may be new
	ReasonCertificate          Reason = "certificate" // it names nobody as it should
	ReasonCertificateRole      Reason = "certificate_role"
	ReasonCertificateExpired   Reason = "certificate_expired"   // since the handshake
	ReasonCertificateUntrusted Reason = "certificate_untrusted" // its CA is trusted no longer
	ReasonHandshake            Reason = "handshake"             // of TLS; on the Thrift ports it is an incident of the connection
)

// reasons are what each service may refuse for.
var reasons = map[Service][]Reason{
	ServiceAdmin: {
		ReasonNoCredentials, ReasonMalformedToken, ReasonUnknownToken, ReasonLockedOut, ReasonNotCurrent, ReasonCertificate,
		ReasonCertificateRole, ReasonCertificateExpired, ReasonCertificateUntrusted,
	},
	ServiceReport: {ReasonNoCredentials, ReasonCertificate, ReasonCertificateRole, ReasonCertificateExpired, ReasonCertificateUntrusted},
	ServiceHTTP:   {ReasonNoCredentials, ReasonCertificateExpired, ReasonCertificateUntrusted, ReasonHandshake},
}

// Failures counts the callers that were not let in, of all services of a node. A nil Failures counts nothing.
type Failures struct{ total *prometheus.CounterVec }

// NewFailures makes and registers the counter; a nil registerer registers nothing.
func NewFailures(registerer prometheus.Registerer) (*Failures, error) {
	f := &Failures{prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "lancemaster_auth_failures_total",
		Help: "Requests whose caller was not found out or not let in, by service and reason.",
	}, []string{"service", "reason"})}
	for service, why := range reasons {
		for _, r := range why {
			f.total.WithLabelValues(string(service), string(r))
		}
	}
	if registerer == nil {
		return f, nil
	}
	return f, registerer.Register(f.total)
}

// Count counts one.
func (f *Failures) Count(service Service, reason Reason) {
	if f != nil {
		f.total.WithLabelValues(string(service), string(reason)).Inc()
	}
}

// Error says that a caller was not let in. In its chain is the *job.Refusal that the caller is told, with code
// UNAUTHENTICATED, or of ReasonNotCurrent NOT_LEADER where other masters may know and UNAVAILABLE where too many ask.
type Error struct {
	Reason     Reason
	RetryAfter time.Duration // of ReasonLockedOut
	refusal    *job.Refusal
}

func (e *Error) Error() string { return e.refusal.Error() }

// Unwrap returns the *job.Refusal.
func (e *Error) Unwrap() error { return e.refusal }

// Standing reports that the certificate was good when the connection was made: a new connection may do.
func (e *Error) Standing() bool {
	return e.Reason == ReasonCertificateExpired || e.Reason == ReasonCertificateUntrusted
}

// notCurrent is the answer of a master that cannot tell, and has done nothing.
func notCurrent(code job.Code, next, message string) *Error {
	return &Error{Reason: ReasonNotCurrent, refusal: &job.Refusal{Code: code, Message: message, Next: next}}
}

func refuse(reason Reason, next, format string, args ...any) *Error {
	return &Error{Reason: reason, refusal: &job.Refusal{Code: job.CodeUnauthenticated, Message: fmt.Sprintf(format, args...), Next: next}}
}
