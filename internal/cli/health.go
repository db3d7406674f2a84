package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lancemaster/lancemaster/internal/client"
)

// healthTimeout bounds one probe over HTTP.
const healthTimeout = 5 * time.Second

func (a *cli) healthCmd() *cobra.Command {
	var probe string
	cmd := a.leaf(&cobra.Command{
		Use:   "health",
		Short: "Ask masters whether they are ready, and say why not",
		Long: `Ask every master of --addr itself, not through the leader, whether it is ready to serve, and say why not.
With --http ask one master's /readyz instead (default port 8030), as a load balancer would; it gets 5s.

Exit status: 0 all ready, 1 one is not ready or does not answer, 2 wrong usage.`,
		Example: `  lancemaster health
  lancemaster health --addr 10.0.0.1:9021,10.0.0.2:9021,10.0.0.3:9021
  lancemaster health --http 127.0.0.1:8030`,
	}, func(ctx context.Context, cmd *cobra.Command, _ []string) error {
		if !cmd.Flags().Changed("http") {
			return a.withClient(func(c *client.Client) error { return a.health(ctx, c) })
		}
		if cmd.Flags().Changed("addr") {
			return usagef("--http and --addr exclude each other")
		}
		if _, _, err := net.SplitHostPort(probe); err != nil {
			return usagef("--http %q is not host:port", probe)
		}
		return a.readyz(ctx, probe)
	})
	cmd.Flags().StringVar(&probe, "http", "", "host:port of a master's HTTP server, such as 127.0.0.1:8030")
	return cmd
}

// masterHealth is one master's answer.
type masterHealth struct {
	Address string         `json:"address"`
	Ready   bool           `json:"ready"`
	Reason  string         `json:"reason,omitempty"` // why it is not ready
	Status  *client.Status `json:"status,omitempty"`
}

func (a *cli) health(ctx context.Context, c *client.Client) error {
	value := struct {
		Ready   bool           `json:"ready"`
		Masters []masterHealth `json:"masters"`
	}{Ready: true}
	for _, address := range c.Addresses() {
		h := masterHealth{Address: address}
		s, err := c.Status(ctx, address)
		if err != nil {
			h.Reason = err.Error()
		} else {
			h.Status, h.Ready, h.Reason = s, s.Ready, s.NotReadyReason
		}
		value.Ready = value.Ready && h.Ready
		value.Masters = append(value.Masters, h)
	}
	err := a.print(value, func(out *bytes.Buffer) {
		t := newTable(out, "ADDRESS", "READY", "NODE", "RAFT", "TERM", "APPLIED", "LEADER", "VERSION", "WHY NOT")
		for _, h := range value.Masters {
			if s := h.Status; s != nil {
				t.row(h.Address, yesNo(h.Ready), s.NodeID, s.RaftState, number(s.RaftTerm), number(s.AppliedIndex), s.LeaderID, s.Version, h.Reason)
			} else {
				t.row(h.Address, "no", "", "", "", "", "", "", h.Reason)
			}
		}
		t.end()
	})
	if err == nil && !value.Ready {
		return &statusError{status: exitFailed}
	}
	return err
}

// readyz asks over HTTP.
func (a *cli) readyz(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/readyz", http.NoBody)
	if err != nil {
		return usagef("--http: %v", err)
	}
	transport := &http.Transport{DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	answer, err := (&http.Client{Transport: transport, CheckRedirect: noRedirect}).Do(request)
	if err != nil {
		return &client.Error{Code: client.CodeUnreachable, Message: err.Error(), Next: "check that the master runs and that this is its HTTP address"}
	}
	defer answer.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(answer.Body, 4096)) // what arrived of the text is enough
	h := masterHealth{Address: address, Ready: answer.StatusCode == http.StatusOK}
	if !h.Ready {
		h.Reason = fmt.Sprintf("%s: %s", answer.Status, strings.Join(strings.Fields(string(body)), " "))
	}
	err = a.print(h, func(out *bytes.Buffer) {
		if h.Ready {
			fmt.Fprintf(out, "%s is ready\n", address)
			return
		}
		fmt.Fprintf(out, "%s is not ready: %s\n", address, clean(h.Reason))
	})
	if err == nil && !h.Ready {
		return &statusError{status: exitFailed}
	}
	return err
}

func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
