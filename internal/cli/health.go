package cli

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lancemaster/lancemaster/internal/client"
)

// healthTimeout bounds one probe over HTTP.
const healthTimeout = 5 * time.Second

func (a *cli) healthCmd() *cobra.Command {
	var probe string
	var live, standbyOK bool
	cmd := a.leaf(&cobra.Command{
		Use:   "health",
		Short: "Ask masters whether they are ready, and say why not",
		Long: `Ask every master of --addr itself, not through the leader, whether it is ready to serve, and say why not.
The leader is ready; a master that does not lead and knows the leader stands by, which is as good: it
forwards what it is asked.

With --http ask one master over HTTP instead (default port 8030), as a load balancer or a container's probe
would; it gets 5s. /readyz is the leader's; --standby-ok lets those that stand by pass too; --live asks
/livez, which needs no leader and no quorum.

Where http.tls is on, give https://host:port, with the CA in --tls-ca (without it the system's count). A probe that
calls 127.0.0.1 says with --tls-server-name which name the certificate has. /livez and /readyz ask for no
certificate of the caller. A loopback address without https:// is asked in TLS too where it speaks that, and its
certificate is not checked: a container's probe need not know how the master is configured, and tells it no secret.

Exit status: 0 all are ready or stand by, 1 one does not or does not answer, 2 wrong usage.`,
		Example: `  lancemaster health
  lancemaster health --addr 10.0.0.1:9021,10.0.0.2:9021,10.0.0.3:9021
  lancemaster health --http 127.0.0.1:8030 --standby-ok
  lancemaster health --http 127.0.0.1:8030 --live
  lancemaster health --http https://127.0.0.1:8030 --tls-ca ca.crt --tls-server-name m1.example.com --standby-ok`,
	}, func(ctx context.Context, cmd *cobra.Command, _ []string) error {
		if !cmd.Flags().Changed("http") {
			if live || standbyOK {
				return usagef("--live and --standby-ok go with --http")
			}
			return a.withClient(func(c *client.Client) error { return a.health(ctx, c) })
		}
		if cmd.Flags().Changed("addr") {
			return usagef("--http and --addr exclude each other")
		}
		probe, err := a.probeAt(probe)
		if err != nil {
			return err
		}
		switch {
		case live && standbyOK:
			return usagef("--live and --standby-ok exclude each other")
		case live:
			return a.probe(ctx, probe, "/livez", "alive")
		case standbyOK:
			return a.probe(ctx, probe, "/readyz?standbyok", "ready or standing by")
		}
		return a.probe(ctx, probe, "/readyz", "ready")
	})
	cmd.Flags().BoolVar(&live, "live", false, "with --http: ask /livez, whether the process works at all")
	cmd.Flags().BoolVar(&standbyOK, "standby-ok", false, "with --http: a master that stands by passes")
	cmd.Flags().StringVar(&probe, "http", "", "host:port of a master's HTTP server, such as 127.0.0.1:8030; https://host:port where it speaks TLS")
	return cmd
}

// masterHealth is one master's answer.
type masterHealth struct {
	Address string         `json:"address"`
	Ready   bool           `json:"ready"`
	Standby bool           `json:"standby,omitempty"`
	Reason  string         `json:"reason,omitempty"` // why it is not ready
	Status  *client.Status `json:"status,omitempty"`
}

func (h masterHealth) state() string {
	if h.Standby {
		return "standby"
	}
	return yesNo(h.Ready)
}

var healthColumns = []column{
	{name: "ADDRESS"}, {name: "READY", kind: stateCell}, {name: "NODE"}, {name: "RAFT"}, {name: "TERM"}, {name: "APPLIED"}, {name: "LEADER"},
	{name: "VERSION", kind: textCell}, {name: "WHY NOT", kind: textCell}, {name: "LEVEL", wide: true}, {name: "INCARNATION", wide: true},
	{name: "INSTANCE", kind: textCell, wide: true}, {name: "STARTED", wide: true}, {name: "REPORT", wide: true}, {name: "HTTP", wide: true},
}

func (a *cli) health(ctx context.Context, c *client.Client) error {
	value := struct {
		Ready   bool           `json:"ready"`
		Masters []masterHealth `json:"masters"`
	}{Ready: true}
	var next []string // of all, each once
	for _, address := range c.Addresses() {
		h, do := healthOf(ctx, c, address)
		if do != "" && !slices.Contains(next, do) {
			next = append(next, do)
		}
		value.Ready = value.Ready && (h.Ready || h.Standby)
		value.Masters = append(value.Masters, h)
	}
	err := a.print(value, func(out *page) {
		t := newTable(out, healthColumns)
		for _, h := range value.Masters {
			if s := h.Status; s != nil {
				t.row(h.Address, h.state(), s.NodeID, raftState(s), number(s.RaftTerm), number(s.AppliedIndex), s.LeaderID, s.Version, h.Reason,
					fmt.Sprint(s.FeatureLevel), number(s.Incarnation), s.InstanceID, moment(s.StartedAt), s.ReportAddress, s.HTTPAddress)
			} else {
				t.row(h.Address, "no", "", "", "", "", "", "", h.Reason, "", "", "", "", "", "")
			}
		}
		t.end()
		for _, h := range value.Masters {
			if t.cut && h.Reason != "" && !h.Standby {
				out.note("%s: %s", clean(h.Address), clean(h.Reason))
			}
		}
	})
	for _, w := range strangers(value.Masters) {
		fmt.Fprintf(a.Err, "warning: %s\n", clean(w))
	}
	if err == nil && !value.Ready {
		answered := slices.ContainsFunc(value.Masters, func(h masterHealth) bool { return h.Status != nil })
		for _, n := range next {
			if answered && startOne(n) { // there is a cluster, of which some do not answer
				n = nextRuns
			}
			fmt.Fprintf(a.Err, "next: %s\n", clean(n))
		}
		return &statusError{status: exitFailed}
	}
	return err
}

// healthOf asks one master, and says what to do where it does not answer.
func healthOf(ctx context.Context, c *client.Client, address string) (h masterHealth, next string) {
	h.Address = address
	s, err := c.Status(ctx, address)
	var failed *client.Error
	switch {
	case errors.As(err, &failed):
		h.Reason, next = failed.Code+": "+failed.Message, failed.Next
	case err != nil:
		h.Reason = err.Error()
	default:
		h.Status, h.Ready, h.Reason, h.Standby = s, s.Ready, s.NotReadyReason, standby(s)
	}
	return h, next
}

// strangers warns of masters that are of different clusters: each may be well, and they know nothing of each other.
func strangers(masters []masterHealth) []string {
	clusters := map[string][]string{}
	for _, h := range masters {
		if s := h.Status; s != nil && s.WaitingFor == "" {
			which := fmt.Sprintf("cluster %d in incarnation %d", s.ClusterID, s.Incarnation)
			clusters[which] = append(clusters[which], h.Address)
		}
	}
	if len(clusters) < 2 {
		return nil
	}
	return []string{"these masters are not of one cluster: " + divided(clusters)}
}

// raftState is what a master's Raft does; of one that has no cluster yet, it does not run.
func raftState(s *client.Status) string {
	if s.WaitingFor != "" {
		return "waiting"
	}
	return strings.ToLower(s.RaftState) // as cluster status has it
}

// server is an HTTP server to ask.
type server struct {
	address string // host:port
	url     string // without a path
	tls     *tls.Config
	own     bool // on this machine, and whether it speaks TLS was not said
}

// probeAt reads the value of --http.
func (a *cli) probeAt(text string) (server, error) {
	scheme, address, given := strings.Cut(text, "://")
	if !given {
		scheme, address = "http", text
	}
	s := server{address: strings.TrimSuffix(address, "/")}
	host, _, err := net.SplitHostPort(s.address)
	if err != nil || scheme != "http" && scheme != "https" {
		return s, usagef("--http %q is not host:port, nor https://host:port", text)
	}
	ip, err := netip.ParseAddr(host)
	s.own = !given && (host == "localhost" || err == nil && ip.IsLoopback())
	s.url = scheme + "://" + s.address
	if scheme == "http" {
		return s, nil
	}
	s.tls, err = a.access.secure()
	return s, err
}

// probe asks one path over HTTP; state is what a good answer means.
func (a *cli) probe(ctx context.Context, at server, path, state string) error {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	var h masterHealth
	var err error
	if at.own {
		// TLS first: where it is spoken, plain HTTP would count as a failed handshake each time. Nobody else
		// answers at a loopback address, and nothing is told that others may not know.
		secure := server{address: at.address, url: "https://" + at.address, tls: &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true}} //nolint:gosec // as the help says
		h, err = ask(ctx, secure, path)
	}
	if !at.own || err != nil {
		h, err = ask(ctx, at, path)
	}
	if err != nil {
		return err
	}
	err = a.print(h, func(out *page) {
		if h.Ready {
			fmt.Fprintf(out, "%s is %s\n", at.address, state)
			return
		}
		fmt.Fprintf(out, "%s is not %s: %s\n", at.address, state, clean(h.Reason))
	})
	if err == nil && !h.Ready {
		return &statusError{status: exitFailed}
	}
	return err
}

// ask gets one answer.
func ask(ctx context.Context, at server, path string) (h masterHealth, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at.url+path, http.NoBody)
	if err != nil {
		return h, usagef("--http: %v", err)
	}
	transport := &http.Transport{DisableKeepAlives: true, TLSClientConfig: at.tls}
	defer transport.CloseIdleConnections()
	answer, err := (&http.Client{Transport: transport, CheckRedirect: noRedirect}).Do(request)
	if err != nil {
		return h, &client.Error{Code: client.CodeUnreachable, Message: err.Error(), Next: probeNext(err)}
	}
	defer answer.Body.Close()
	if at.tls == nil && answer.StatusCode == http.StatusBadRequest && answer.TLS == nil && answer.Header.Get("Content-Type") == "" {
		return h, &client.Error{Code: client.CodeUnreachable, Message: at.address + " speaks TLS", Next: "ask https://" + at.address + ", with --tls-ca"}
	}
	body, _ := io.ReadAll(io.LimitReader(answer.Body, 4096)) // what arrived of the text is enough
	h = masterHealth{Address: at.address, Ready: answer.StatusCode == http.StatusOK}
	if !h.Ready {
		h.Reason = fmt.Sprintf("%s: %s", answer.Status, strings.Join(strings.Fields(string(body)), " "))
	}
	return h, nil
}

// probeNext is what to do where no answer came.
func probeNext(err error) string {
	var (
		authority x509.UnknownAuthorityError
		name      x509.HostnameError
	)
	switch {
	case errors.As(err, &authority):
		return "give the CA of the master's certificate with --tls-ca or LANCEMASTER_TLS_CA"
	case errors.As(err, &name):
		return "give a name that is in the master's certificate with --tls-server-name"
	case strings.Contains(err.Error(), "HTTP response to HTTPS client"):
		return "leave out https://: this server does not speak TLS"
	}
	return "check that the master runs and that this is its HTTP address"
}

func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
