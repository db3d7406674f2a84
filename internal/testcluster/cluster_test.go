package testcluster

import (
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lancemaster/lancemaster/internal/client"
)

// memory makes a directory, in memory where the system has one.
func memory(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "lancemaster-test-") //nolint:usetesting // t.TempDir may be on a slow disk
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// formed runs a test with three masters of which one leads, in a bubble that ends only when all of
// their goroutines have.
func formed(t *testing.T, f func(*testing.T, *Cluster, *Master)) {
	t.Helper()
	formedAs(t, nil, f)
}

// formedAs is formed with configuration that some masters have for themselves.
func formedAs(t *testing.T, own map[string]map[string]string, f func(*testing.T, *Cluster, *Master)) {
	t.Helper()
	dir := memory(t)
	synctest.Test(t, func(t *testing.T) {
		c := New(Config{Dir: dir, Masters: masters, Seed: 1, Own: own})
		if err := c.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			c.Net.Heal()
			if err := c.Stop(); err != nil {
				t.Error(err)
			}
		})
		m, err := c.WaitLeader(time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		f(t, c, m)
	})
}

// A leader that is cut off is followed by another, and a crashed one comes back to what it had.
func TestLeadershipMoves(t *testing.T) {
	formed(t, func(t *testing.T, c *Cluster, first *Master) {
		for _, m := range c.Masters {
			if m != first {
				c.Net.Cut(first.Addr, m.Addr)
				c.Net.Cut(m.Addr, first.Addr)
			}
		}
		began := time.Now()
		if !Until(time.Minute, func() bool { m := c.Leader(); return m != nil && m != first }) {
			t.Fatal("nobody else leads after the leader was cut off")
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("the next leader led after %s", took)
		}
		second := c.Leader()
		if err := second.Crash(); err != nil {
			t.Fatal(err)
		}
		if Until(10*time.Second, func() bool { return c.Leader() != nil }) {
			t.Errorf("%s leads without a majority", c.Leader().Name)
		}
		c.Net.Heal()
		if err := second.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := c.WaitLeader(time.Minute); err != nil {
			t.Error(err)
		}
	})
}

// A follower that is stopped while requests wait for a leader which does not answer ends in order and
// in time.
func TestStopWithRequestsThatHang(t *testing.T) {
	formed(t, func(t *testing.T, c *Cluster, leader *Master) {
		follower := c.Masters[0]
		if follower == leader {
			follower = c.Masters[1]
		}
		api, err := client.New(client.Config{Addresses: []string{follower.AdminAddr()}, Dial: c.Net.Host(ClientAddr(0)).Dial})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = api.Close() })
		if _, err := api.Jobs(t.Context(), client.JobQuery{}); err != nil {
			t.Fatal(err)
		}
		c.Net.Cut(leader.Addr, follower.Addr)
		asked := make(chan error, 1)
		go func() {
			_, err := api.SetSettings(t.Context(), []client.SettingValue{{Name: "dispatch.paused", Value: "true"}})
			asked <- err
		}()
		sleepUntil(time.Now().Add(500 * time.Millisecond)) // the leader is still believed in
		began := time.Now()
		if err := follower.Stop(); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("the stop took %s", took)
		}
		if err := <-asked; err == nil {
			t.Error("the change was acknowledged by nobody")
		}
	})
}
