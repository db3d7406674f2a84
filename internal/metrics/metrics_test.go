package metrics_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/lancemaster/lancemaster/internal/config"
	"github.com/lancemaster/lancemaster/internal/metrics"
)

func TestBuildInfo(t *testing.T) {
	want := `# HELP lancemaster_build_info What this process was built from; the value is always 1.
# TYPE lancemaster_build_info gauge
lancemaster_build_info{goversion="go1.26",revision="abc",version="v1.2.3"} 1
`
	c := metrics.BuildInfo(config.Build{Version: "v1.2.3", Revision: "abc", Go: "go1.26"})
	if err := testutil.CollectAndCompare(c, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
	if problems, err := testutil.CollectAndLint(c); err != nil || len(problems) > 0 {
		t.Error(problems, err)
	}
}

func TestHandlerServesTheRegistry(t *testing.T) {
	w := httptest.NewRecorder()
	metrics.Handler(metrics.New(config.Build{})).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", http.NoBody))
	body, err := io.ReadAll(w.Result().Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"lancemaster_build_info{", "go_goroutines ", "process_open_fds "} {
		if !strings.Contains(string(body), "\n"+name) {
			t.Errorf("the page has no %s", name)
		}
	}
}
