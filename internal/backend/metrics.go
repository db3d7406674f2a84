package backend

import (
	"errors"

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

func newMetrics(registerer prometheus.Registerer) (*metrics, error) {
	m := &metrics{heartbeats: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "lancemaster_backend_heartbeats_total",
		Help: "Heartbeats asked of backends while leading, by result.",
	}, []string{"result"})}
	for _, r := range results {
		m.heartbeats.WithLabelValues(string(r))
	}
	if registerer == nil {
		return m, nil
	}
	return m, registerer.Register(m.heartbeats)
}
