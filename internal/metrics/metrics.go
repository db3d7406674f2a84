// Package metrics makes the registry that a node's parts register with and
// serves it. Each metric is defined beside the code that moves it; here are only
// those of the process and the build.
package metrics

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/lancemaster/lancemaster/internal/config"
)

// New returns a registry with the metrics of the Go runtime, the process and
// the build.
func New(b config.Build) *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		BuildInfo(b),
	)
	return r
}

// BuildInfo is the constant metric that says what is running.
func BuildInfo(b config.Build) prometheus.Collector {
	g := prometheus.NewGauge(prometheus.GaugeOpts{
		Name:        "lancemaster_build_info",
		Help:        "What this process was built from; the value is always 1.",
		ConstLabels: prometheus.Labels{"version": b.Version, "revision": b.Revision, "goversion": b.Go},
	})
	g.Set(1)
	return g
}

// Bounds of a scrape.
const (
	maxScrapes    = 4
	scrapeTimeout = 20 * time.Second
)

// Handler serves the registry. A failing collector costs its own metrics, not
// the whole page.
func Handler(r *prometheus.Registry) http.Handler {
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{
		Registry:            r,
		ErrorHandling:       promhttp.ContinueOnError,
		MaxRequestsInFlight: maxScrapes,
		Timeout:             scrapeTimeout,
	})
}
