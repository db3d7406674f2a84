package app_test

import (
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
)

// What an operator scrapes of a node on which one job has lived and ended.
func TestMetricsPage(t *testing.T) {
	t.Parallel()
	d := startDev(t, filepath.Join(t.TempDir(), "data"))
	defer stop(t, d)
	c := dial(t, d)
	got, err := c.Submit(t.Context(), demo(t))
	if err != nil {
		t.Fatal(err)
	}
	follow(t.Context(), t, c, got.Job.ID)

	page := scrape(t, "http://"+d.Addrs().HTTP+"/metrics")
	for _, want := range []string{
		`lancemaster_build_info{.*} 1`,
		`lancemaster_jobs{refresh_state="NOT_REQUIRED",state="NOT_COMMITTED"} 1`,
		`lancemaster_jobs{refresh_state="NOT_REQUIRED",state="PENDING"} 0`,
		`lancemaster_jobs_unresolved{state="UNKNOWN"} 0`,
		`lancemaster_dispatches_total{class="refused"} 1`,
		`lancemaster_reports_total{.*result="unauthenticated"} 0`,
		`lancemaster_journal_apply_duration_seconds_count{result="applied"} \d+`,
		`lancemaster_leader 1`,
		`lancemaster_admission_enabled 1`,
		`lancemaster_backend_heartbeats_total{result="ok"} \d+`,
	} {
		if !regexp.MustCompile(`(?m)^` + want + `$`).MatchString(page) {
			t.Errorf("the page has no %s", want)
		}
	}
	problems, err := promlint.New(strings.NewReader(page)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, "lancemaster_") {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
	for _, name := range []string{"demo_vec", "typed.lance", got.Job.RequestID} {
		if name != "" && strings.Contains(page, name) {
			t.Errorf("the page names %s", name)
		}
	}
}

func scrape(t *testing.T, url string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}
