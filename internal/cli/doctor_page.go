package cli

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxPage bounds a page of metrics; a master's has some hundred kilobytes.
const maxPage = 8 << 20

// pageSeen is a master's page of metrics.
type pageSeen struct {
	address string
	err     error
	metrics map[string]float64 // by name; of a family with labels, the least
	// ahead is how far the master's clock is ahead of this machine's, to a second.
	ahead time.Duration
	dated bool // ahead is known
}

// of gives a metric, where the page has it.
func (p *pageSeen) of(name string) (float64, bool) {
	v, ok := p.metrics[name]
	return v, ok
}

// lookAtPage reads the metrics at an address: with TLS where that is spoken, else, or where the other
// end does not, without.
func lookAtPage(ctx context.Context, address string, secure *tls.Config) *pageSeen {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	p := &pageSeen{address: address}
	if secure != nil {
		if p.err = p.read(ctx, "https", secure); p.err == nil || !strings.Contains(p.err.Error(), "HTTP response to HTTPS client") {
			return p
		}
	}
	p.err = p.read(ctx, "http", nil)
	return p
}

func (p *pageSeen) read(ctx context.Context, scheme string, secure *tls.Config) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+p.address+"/metrics", http.NoBody)
	if err != nil {
		return err
	}
	transport := &http.Transport{DisableKeepAlives: true, TLSClientConfig: secure}
	defer transport.CloseIdleConnections()
	asked := time.Now()
	answer, err := (&http.Client{Transport: transport, CheckRedirect: noRedirect}).Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	answered := time.Now()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", p.address, answer.Status)
	}
	if p.metrics, err = readMetrics(io.LimitReader(answer.Body, maxPage)); err != nil {
		return err
	}
	if at, err := http.ParseTime(answer.Header.Get("Date")); err == nil {
		p.dated = true
		// It is cut to a second, so it is half a second later on average.
		p.ahead = at.Add(500 * time.Millisecond).Sub(asked.Add(answered.Sub(asked) / 2)).Round(time.Second)
	}
	return nil
}

// readMetrics reads Prometheus' text, as far as the doctor needs it.
func readMetrics(r io.Reader) (map[string]float64, error) {
	out := map[string]float64{}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		if !strings.HasPrefix(line, "lancemaster_") {
			continue
		}
		name, rest, _ := strings.Cut(line, " ")
		if i := strings.IndexByte(line, '{'); i >= 0 && i < len(name) {
			name, rest = line[:i], line[strings.LastIndexByte(line, '}')+1:]
		}
		number, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
		v, err := strconv.ParseFloat(number, 64)
		if err != nil {
			continue
		}
		if old, ok := out[name]; !ok || v < old {
			out[name] = v
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(out) == 0 {
		return nil, errors.New("this is no page of a master's metrics")
	}
	return out, nil
}
