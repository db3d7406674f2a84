package tlsconf

import (
	"errors"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Use is what a Source is for; it labels metrics and log lines.
type Use string

// The uses.
const (
	UseRaft    Use = "raft"    // between masters
	UseReport  Use = "report"  // backends report here
	UseAdmin   Use = "admin"   // the command line and other clients
	UseHTTP    Use = "http"    // health and metrics
	UseBackend Use = "backend" // towards backends
	UseRefresh Use = "refresh" // towards refreshers
)

// Uses lists the uses.
func Uses() []Use { return []Use{UseRaft, UseReport, UseAdmin, UseHTTP, UseBackend, UseRefresh} }

func (u Use) known() bool { return slices.Contains(Uses(), u) }

// Metrics are what all Sources of a node export.
type Metrics struct{ expiry, success, loaded *prometheus.GaugeVec }

// NewMetrics makes and registers the metrics; a nil registerer registers nothing.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	gauge := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "lancemaster_tls_" + name, Help: help}, []string{"use"})
	}
	m := &Metrics{
		expiry: gauge("certificate_expiry_timestamp_seconds",
			"When this node's certificate, or the first of those that lead from it to a CA, expires, as seconds since 1970."),
		success: gauge("reload_success",
			"1 when the certificate files were last read they could be used, else 0: what was loaded before stays in use."),
		loaded: gauge("reload_timestamp_seconds",
			"When the certificate files in use were loaded, as seconds since 1970."),
	}
	if registerer == nil {
		return m, nil
	}
	return m, errors.Join(registerer.Register(m.expiry), registerer.Register(m.success), registerer.Register(m.loaded))
}

func (m *Metrics) took(uses []Use, l *loaded, now time.Time) {
	for _, use := range uses {
		if !l.notAfter.IsZero() {
			m.expiry.WithLabelValues(string(use)).Set(float64(l.notAfter.Unix()))
		}
		m.loaded.WithLabelValues(string(use)).Set(float64(now.UnixMilli()) / 1000)
	}
	m.again(uses)
}

func (m *Metrics) failed(uses []Use) { m.succeeded(uses, 0) }

func (m *Metrics) again(uses []Use) { m.succeeded(uses, 1) }

func (m *Metrics) succeeded(uses []Use, value float64) {
	for _, use := range uses {
		m.success.WithLabelValues(string(use)).Set(value)
	}
}

func (m *Metrics) forget(uses []Use) {
	for _, v := range []*prometheus.GaugeVec{m.expiry, m.success, m.loaded} {
		for _, use := range uses {
			v.DeleteLabelValues(string(use))
		}
	}
}
