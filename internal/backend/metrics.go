package backend

import (
	"errors"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lancemaster/lancemaster/internal/job"
)

// result classes one heartbeat.
type result string

const (
	resultOK          result = "ok"
	resultRefused     result = "refused"       // a status other than OK
	resultNoStartTime result = "no_start_time" // OK, but not which process answered
	resultTimeout     result = "timeout"
	resultError       result = "error" // no complete answer
)

var results = []result{resultOK, resultRefused, resultNoStartTime, resultTimeout, resultError}

// judge classes an answer. Without a remote address the answer is no better than
// none: nobody could say which listener it came from.
func judge(reply job.HeartbeatReply, err error) result {
	switch {
	case errors.Is(err, errLate):
		return resultTimeout
	case err != nil:
		return resultError
	case reply.Status != 0:
		return resultRefused
	case reply.ProcessEpoch <= 0 || reply.RemoteAddr == "":
		return resultNoStartTime
	default:
		return resultOK
	}
}

type metrics struct{ heartbeats *prometheus.CounterVec }

func newMetrics() *metrics {
	m := &metrics{heartbeats: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "lancemaster_backend_heartbeats_total",
		Help: "Heartbeats asked of backends while leading, by result.",
	}, []string{"result"})}
	for _, r := range results {
		m.heartbeats.WithLabelValues(string(r))
	}
	return m
}

// MaxSeries is how many backends have series of their own in one metric: those with the
// lowest ids. All others share the series of the label OtherBackends.
const MaxSeries = 64

// OtherBackends is the backend_id of the series that the backends beyond MaxSeries share.
const OtherBackends = "other"

// SeriesLabel returns the backend_id for the backend at a position in the ascending list
// of all registered ones.
func SeriesLabel(position int, id job.BackendID) string {
	if position >= MaxSeries {
		return OtherBackends
	}
	return strconv.FormatInt(int64(id), 10)
}

// collector exports what the heartbeats of the present term know of each backend. A
// master that does not lead asks no backend, and exports none of it.
type collector struct {
	m                 *Monitor
	up, age, failures *prometheus.Desc
}

func newCollector(m *Monitor) *collector {
	d := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("lancemaster_backend_"+name, help, []string{"backend_id"}, nil)
	}
	return &collector{
		m: m,
		up: d("up", "1 while the backend answers the leader's heartbeats, else 0. Only on the leader."+
			" In the series of all others: 1 while all of them do."),
		age: d("heartbeat_age_seconds", "Time since the backend last answered a heartbeat of this term with OK; if it never has, since"+
			" it was first asked. Only on the leader. In the series of all others: the longest."),
		failures: d("heartbeat_failures_total", "Heartbeats of this term that the backend did not answer with OK. Only on the leader."),
	}
}

// Describe names the metrics.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.up
	ch <- c.age
	ch <- c.failures
	c.m.metrics.heartbeats.Describe(ch)
}

// Collect reads the present term's heartbeats.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	c.m.metrics.heartbeats.Collect(ch)
	now := time.Now()
	type series struct{ up, age, failures float64 }
	var order []string
	byLabel := make(map[string]*series)
	for i, s := range c.m.Statuses() {
		label := SeriesLabel(i, s.Backend)
		one := byLabel[label]
		if one == nil {
			one = &series{up: 1}
			byLabel[label] = one
			order = append(order, label)
		}
		if !s.Alive {
			one.up = 0
		}
		since := s.LastOK
		if since.IsZero() {
			since = s.FirstAsked
		}
		one.age = max(one.age, now.Sub(since).Seconds())
		one.failures += float64(s.Failures)
	}
	for _, label := range order {
		s := byLabel[label]
		ch <- prometheus.MustNewConstMetric(c.up, prometheus.GaugeValue, s.up, label)
		ch <- prometheus.MustNewConstMetric(c.age, prometheus.GaugeValue, s.age, label)
		ch <- prometheus.MustNewConstMetric(c.failures, prometheus.CounterValue, s.failures, label)
	}
}
