package thriftnet

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/lancemaster/lancemaster/gen-go/report"
	"github.com/lancemaster/lancemaster/gen-go/shared"
	"github.com/lancemaster/lancemaster/internal/await"
)

// Each connection counts under what it does now.
func TestMetrics(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	s, _ := start(t, handler{result: func(context.Context, *report.TLanceIndexJobReport) (*shared.TStatus, error) {
		close(entered)
		<-leave
		return ok(), nil
	}}, func(c *Config) { c.MaxConns = 9 })
	defer close(leave)
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(s.Collector())

	request := reportBytes(t, Binary, sample())
	raw(t, s)                        // idle
	raw(t, s)                        // idle
	write(t, raw(t, s), request[:5]) // reading
	write(t, raw(t, s), request)     // handling
	want := strings.NewReader(`# HELP lancemaster_rpc_connections Open connections to a Thrift service, by what they do: idle between requests, reading one, handling one.
# TYPE lancemaster_rpc_connections gauge
lancemaster_rpc_connections{service="report",state="handling"} 1
lancemaster_rpc_connections{service="report",state="idle"} 2
lancemaster_rpc_connections{service="report",state="reading"} 1
# HELP lancemaster_rpc_connections_limit Connections that a Thrift service holds at once; a further one costs an idle one its place, or is refused.
# TYPE lancemaster_rpc_connections_limit gauge
lancemaster_rpc_connections_limit{service="report"} 9
`)
	<-entered
	var err error
	if !await.Poll(time.Millisecond, bound, func() bool {
		_, _ = want.Seek(0, 0)
		err = testutil.GatherAndCompare(registry, want)
		return err == nil
	}) {
		t.Fatal(err)
	}
	if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) > 0 {
		t.Error(problems, err)
	}
}
