package refresh

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"
)

// KindHTTP is the kind of a catalog that is refreshed by a POST.
const KindHTTP = "http"

const (
	maxAnswer  = 64 << 10 // bytes read of an answer's body, and of its header
	maxExcerpt = 200      // bytes of a failing answer's body that an error quotes
	maxReason  = 400      // bytes of an error of the network
)

// HTTP posts each change to the URL of the catalog.
//
// The POST goes there and nowhere else: no redirect is followed, no proxy of the
// environment is used, since a variable of the master's environment must not
// decide who is given the token, and no cookie is kept. Each attempt has a
// connection of its own, closed with it: attempts are rare, and the CA bundle may
// have changed since the last one.
type HTTP struct {
	// Resolver reads the token and the CA bundle.
	Resolver Resolver
	// Certificate is this master's own, for servers that ask for one; may be nil.
	Certificate Certificate
}

// httpBody is what is posted. Its fields are a promise to who receives it.
type httpBody struct {
	Catalog    string `json:"catalog"`
	Database   string `json:"database"`
	Table      string `json:"table"`
	JobID      int64  `json:"job_id"`
	DatasetURI string `json:"dataset_uri"`
	Version    int64  `json:"version"`
}

// Refresh posts the change once. Only a whole answer of 2xx, or the first 64 KiB of
// a longer one, is evidence.
func (h HTTP) Refresh(ctx context.Context, spec Spec, attempt Attempt) (string, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	target, address, err := parseTarget(spec.URL)
	if err != nil {
		return "", err
	}
	token, err := h.token(ctx, spec)
	if err != nil {
		return "", err
	}
	transport, err := h.transport(ctx, spec, target)
	if err != nil {
		return "", err
	}
	defer transport.CloseIdleConnections()
	request, err := newPost(ctx, target, token, attempt)
	if err != nil {
		return "", err
	}
	scrub := newScrubber(token)
	// The transport itself, not a client over it: a client follows redirects.
	response, err := transport.RoundTrip(request)
	if err != nil {
		return "", networkError(ctx, scrub, "no answer from "+address, err)
	}
	defer response.Body.Close()
	return judge(ctx, scrub, address, response)
}

// parseTarget checks the URL. Its errors do not show it: it may carry anything.
func parseTarget(raw string) (target *url.URL, address string, err error) {
	target, err = url.Parse(raw)
	if err != nil || target.Hostname() == "" || target.Scheme != "http" && target.Scheme != "https" {
		return nil, "", errors.New("the catalog's refresher has no http or https URL with a host; correct the catalog")
	}
	if target.User != nil {
		return nil, "", errors.New("the catalog's refresher URL carries a user or password; give a token by reference instead")
	}
	port := target.Port()
	switch {
	case port != "":
	case target.Scheme == "https":
		port = "443"
	default:
		port = "80"
	}
	return target, net.JoinHostPort(target.Hostname(), port), nil
}

func (h HTTP) token(ctx context.Context, spec Spec) (string, error) {
	token, err := resolve(ctx, h.Resolver, spec.PasswordRef)
	if err != nil {
		return "", fmt.Errorf("the refresher's token is not to be had: %w", err)
	}
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", errors.New("the refresher's token holds a character that a header cannot carry;" +
			" it must be printable ASCII without spaces")
	}
	return token, nil
}

func (h HTTP) transport(ctx context.Context, spec Spec, target *url.URL) (*http.Transport, error) {
	var config *tls.Config
	if target.Scheme == "https" {
		var err error
		if config, err = clientTLS(ctx, h.Resolver, spec.CARef, h.Certificate); err != nil {
			return nil, err
		}
	}
	return &http.Transport{
		Proxy: nil,
		// The transport gives a dial a context that may outlive the request. The
		// attempt's own does not, and with it ends whatever uses the connection: a
		// handshake, a header, a body.
		DialContext: func(_ context.Context, network, address string) (net.Conn, error) {
			return dial(ctx, network, address)
		},
		TLSClientConfig:        config,
		DisableKeepAlives:      true,
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxAnswer,
	}, nil
}

// dial connects. The connection is closed when the context ends, whoever still
// uses it.
func dial(ctx context.Context, network, address string) (net.Conn, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() { _ = conn.Close() })
	return conn, nil
}

func newPost(ctx context.Context, target *url.URL, token string, attempt Attempt) (*http.Request, error) {
	for _, name := range []string{attempt.Catalog, attempt.Database, attempt.Table, attempt.DatasetURI} {
		if !utf8.ValidString(name) {
			// JSON would carry another name in its place, and that one would be refreshed.
			return nil, fmt.Errorf("the name %q is not valid UTF-8 and cannot be sent", oneLine(name, maxExcerpt))
		}
	}
	body, err := json.Marshal(httpBody{
		Catalog: attempt.Catalog, Database: attempt.Database, Table: attempt.Table, JobID: attempt.Job,
		DatasetURI: attempt.DatasetURI, Version: attempt.DatasetVersion,
	})
	if err != nil {
		return nil, fmt.Errorf("the refresh cannot be written as JSON: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, target.String(), bytes.NewReader(body))
	if err != nil {
		return nil, errors.New("the catalog's refresher URL cannot be used; correct the catalog")
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "lancemaster")
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	return request, nil
}

// judge turns an answer into evidence or an error.
func judge(ctx context.Context, scrub scrubber, address string, response *http.Response) (string, error) {
	status := response.StatusCode
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	switch {
	case status >= 200 && status < 300 && err != nil:
		return "", networkError(ctx, scrub, fmt.Sprintf("the answer of %s, HTTP %d, was cut off", address, status), err)
	case status >= 200 && status < 300:
		return fmt.Sprintf("HTTP %d from %s", status, address), nil
	case status >= 300 && status < 400:
		return "", fmt.Errorf("%s answered HTTP %d, %s, which is not followed; only 2xx is success, so give the catalog"+
			" the URL that answers it", address, status, whereTo(scrub, response))
	}
	text := fmt.Sprintf("%s answered HTTP %d; only 2xx is success", address, status)
	if excerpt := excerptOf(scrub, body, err == nil && len(body) < maxAnswer); excerpt != "" {
		text += ": " + excerpt
	}
	return "", errors.New(text)
}

// whereTo names the host of a redirect and nothing else of it: the rest may be a
// login's secret.
func whereTo(scrub scrubber, response *http.Response) string {
	location, err := response.Location()
	if err != nil || location.Host == "" {
		return "a redirect without a readable location"
	}
	return "a redirect to " + scrub.theirs(location.Host, maxExcerpt)
}

func excerptOf(scrub scrubber, body []byte, whole bool) string {
	if !whole {
		// The secret may be cut in two at the end, where no mask finds it.
		body = body[:max(len(body)-scrub.longest(), 0)]
	}
	return scrub.theirs(string(body), maxExcerpt)
}

// networkError says what failed and why. That time ran out can be told with
// errors.Is.
func networkError(ctx context.Context, scrub scrubber, what string, err error) error {
	if ended := ctx.Err(); ended != nil {
		return fmt.Errorf("%s in time: %w", what, ended)
	}
	return fmt.Errorf("%s: %s", what, scrub.failure(err, maxReason))
}
