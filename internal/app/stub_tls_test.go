package app_test

import (
	"bufio"
	"context"
	"io"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/lancemaster/lancemaster/internal/client"
	"github.com/lancemaster/lancemaster/internal/stubcli"
	"github.com/lancemaster/lancemaster/internal/tlsconf"
)

// stubWith runs lanceworker-stub and returns the ports on which it takes dispatches and heartbeats.
func stubWith(t *testing.T, args ...string) (bePort, heartbeatPort int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	cmd := stubcli.Command(w, io.Discard)
	cmd.SetArgs(append([]string{"--listen", "127.0.0.1:0", "--heartbeat-listen", "127.0.0.1:0"}, args...))
	done := make(chan error, 1)
	go func() {
		err := cmd.ExecuteContext(ctx)
		_ = w.CloseWithError(io.EOF)
		done <- err
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the stub ends with %v", err)
		}
	})
	line, err := bufio.NewReader(r).ReadString('\n')
	said := regexp.MustCompile(`backend 127\.0\.0\.1:(\d+) heartbeat 127\.0\.0\.1:(\d+)`).FindStringSubmatch(line)
	if err != nil || said == nil {
		t.Fatalf("the stub says %q, %v", line, err)
	}
	port := func(text string) int {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	return port(said[1]), port(said[2])
}

// With certificates on both sides everywhere, a stub with one of role backend runs a job to its end: it refuses
// one, and reports the end of another.
func TestAStubWithMutualTLS(t *testing.T) {
	p := pki{t, t.TempDir()}
	ca := p.ca("ca")
	a, _ := securedNode(t, p, ca, &lines{})
	p.issue(ca, "ada", tlsconf.Request{Name: "ada", Role: tlsconf.RoleAdmin, Validity: time.Hour})
	c, err := client.New(client.Config{Addresses: []string{a.Addrs().Admin}, TLS: p.config("ada", ca)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), 2*wait)
	defer cancel()
	if _, err := c.PutCatalog(ctx, client.Catalog{Name: "local", Refresher: client.Refresher{Kind: "none"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.SetSettings(ctx, []client.SettingValue{{Name: "admission.enabled", Value: "true"}, {Name: "local_datasets.allowed", Value: "true"}}); err != nil {
		t.Fatal(err)
	}

	p.issue(ca, "be-1", tlsconf.Request{Name: "be-1", Role: tlsconf.RoleBackend, Hosts: []string{"127.0.0.1"}, Validity: time.Hour})
	bePort, heartbeatPort := stubWith(t, "--tls-cert", p.path("be-1.crt"), "--tls-key", p.path("be-1.key"), "--tls-ca", p.path("ca.crt"),
		"--simulate", "reported:report=NATIVE_OK,after=100ms,proof=CHILD_REAPED")
	if _, err := c.AddBackend(ctx, client.NewBackend{Host: "127.0.0.1", Port: bePort, HeartbeatPort: heartbeatPort}); err != nil {
		t.Fatal(err)
	}
	for index, want := range map[string]string{"refused": client.StateNotCommitted, "reported": client.StateCommitted} {
		s := demo(t)
		s.IndexName = index
		submitted, err := c.Submit(ctx, s)
		if err != nil {
			t.Fatal(err)
		}
		if j := follow(ctx, t, c, submitted.Job.ID); j.State != want {
			t.Errorf("the job that is %s ends %s, want %s", index, j.State, want)
		}
	}
}
