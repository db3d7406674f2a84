package testcluster

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lancemaster/lancemaster/internal/client"
)

// ready asks a master over HTTP as a readiness probe does.
func (c *Cluster) ready(t *testing.T, m *Master) (ok bool, reason string) {
	t.Helper()
	transport := &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return c.Net.Host(ClientAddr(9)).Dial(ctx, network, m.at(httpPort))
		},
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://master/readyz?standbyok", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode == http.StatusOK, string(text)
}

// journal adds entries to the log.
func (c *Cluster) journal(t *testing.T, entries int) {
	t.Helper()
	const writers = 8
	var all sync.WaitGroup
	for n := range writers {
		all.Go(func() {
			api, err := client.New(client.Config{Addresses: []string{c.Leader().AdminAddr()}, Dial: c.Net.Host(ClientAddr(n)).Dial})
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = api.Close() }()
			for i := range entries / writers {
				value := []string{"true", "false"}[(i+n)%2]
				if _, err := api.SetSettings(t.Context(), []client.SettingValue{{Name: "dispatch.paused", Value: value}}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
}

func (c *Cluster) applied(t *testing.T, m *Master) int64 {
	t.Helper()
	api, err := client.New(client.Config{Addresses: []string{m.AdminAddr()}, Dial: c.Net.Host(ClientAddr(8)).Dial})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = api.Close() }()
	s, err := api.Status(t.Context(), m.AdminAddr())
	if err != nil {
		t.Fatal(err)
	}
	return s.AppliedIndex
}

// A rolling update takes the next master down when this one says that it stands by: that has to mean that
// it has the log, all but the newest entries, and not only that it hears the leader.
func TestAFollowerThatLacksTheLogDoesNotStandBy(t *testing.T) {
	const missed, bound = 2400, 1000
	formed(t, func(t *testing.T, c *Cluster, leader *Master) {
		follower := c.Masters[0]
		if follower == leader {
			follower = c.Masters[1]
		}
		if !Until(2*time.Second, func() bool { ok, _ := c.ready(t, follower); return ok }) {
			_, reason := c.ready(t, follower)
			t.Fatalf("a follower that has caught up: %s", reason)
		}
		if err := follower.Stop(); err != nil {
			t.Fatal(err)
		}
		c.journal(t, missed)
		target := c.applied(t, leader)

		for _, m := range c.Masters { // a heartbeat then comes well before the entries
			if m != follower {
				c.Net.Slow(m.Addr, follower.Addr, 150*time.Millisecond)
			}
		}
		if err := follower.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		lagging := false
		if !Until(time.Minute, func() bool {
			ok, reason := c.ready(t, follower)
			if has := c.applied(t, follower); ok && has+bound < target {
				t.Fatalf("it stands by with %d of %d entries: %s", has, target, reason)
			}
			lagging = lagging || strings.Contains(reason, "entries behind the leader")
			return ok
		}) {
			_, reason := c.ready(t, follower)
			t.Fatalf("it never stands by: %s", reason)
		}
		if !lagging {
			t.Error("it never said how far behind it is")
		}

		c.Net.Heal()
		if err := follower.Stop(); err != nil {
			t.Fatal(err)
		}
		if err := follower.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !Until(2*time.Second, func() bool { ok, _ := c.ready(t, follower); return ok }) {
			_, reason := c.ready(t, follower)
			t.Errorf("restarted with all of the log it does not stand by: %s", reason)
		}
	})
}
