package retention

import (
	"context"
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	removed prometheus.Counter
	sweeps  *prometheus.CounterVec
}

const (
	sweepDone   = "done"
	sweepFailed = "failed"
)

func newMetrics() *metrics {
	m := &metrics{
		removed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "lancemaster_retention_removed_jobs_total",
			Help: "Jobs that this leader removed because retention.keep had passed since they were closed.",
		}),
		sweeps: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "lancemaster_retention_sweeps_total",
			Help: "Looks of this leader for jobs to remove, by result; one that found nothing is done.",
		}, []string{"result"}),
	}
	m.sweeps.WithLabelValues(sweepDone)
	m.sweeps.WithLabelValues(sweepFailed)
	return m
}

func (m *metrics) register(r prometheus.Registerer) error {
	return errors.Join(r.Register(m.removed), r.Register(m.sweeps))
}

// swept counts a sweep; one that the end of the term cut short is none.
func (m *metrics) swept(ctx context.Context, err error) {
	switch {
	case ctx.Err() != nil:
	case err != nil:
		m.sweeps.WithLabelValues(sweepFailed).Inc()
	default:
		m.sweeps.WithLabelValues(sweepDone).Inc()
	}
}
