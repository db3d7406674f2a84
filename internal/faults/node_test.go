//go:build faults

package faults

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lancemaster/lancemaster/internal/client"
	"github.com/lancemaster/lancemaster/internal/programs"
)

// Ports of every node. Each has a loopback address of its own, so that they are free, and stay so while
// it is down.
const (
	raftPort, reportPort, adminPort, httpPort = "9010", "9020", "9021", "8030"
	stubPort, stubBeatPort                    = "9060", "9050"
)

// node is a master that the test starts, ends and starts again.
type node struct {
	t      *testing.T
	id     string
	host   string
	dir    string // its data directory
	binary string
	dev    bool        // run by the command dev, not by serve
	flags  []string    // besides those of its addresses
	prefix []string    // a command that runs it
	tls    *tls.Config // with which it is called, where it wants TLS
	proc   *programs.Process
}

func (n *node) raft() string   { return net.JoinHostPort(n.host, raftPort) }
func (n *node) report() string { return net.JoinHostPort(n.host, reportPort) }
func (n *node) admin() string  { return net.JoinHostPort(n.host, adminPort) }

// launch starts the process and waits for nothing.
func (n *node) launch() {
	n.t.Helper()
	args := append([]string(nil), n.prefix...)
	if n.dev {
		args = append(args, n.binary, "dev", "--data", n.dir, "--stub-listen", net.JoinHostPort(n.host, stubPort),
			"--stub-heartbeat-listen", net.JoinHostPort(n.host, stubBeatPort))
	} else {
		args = append(args, n.binary, "serve", "--data-dir", n.dir, "--node-id", n.id)
	}
	args = append(args, "--raft-listen", n.raft(), "--report-listen", n.report(), "--admin-listen", n.admin(),
		"--http-listen", net.JoinHostPort(n.host, httpPort))
	args = append(args, n.flags...)
	n.proc = programs.Launch(n.t, n.id, nil, args[0], args[1:]...)
}

// up tells whether the process runs.
func (n *node) up() bool { return n.proc != nil && n.proc.Running() }

// state is where the node keeps its state.
func (n *node) state() string { return filepath.Join(n.dir, "state.db") }

// status asks the node about itself.
func (n *node) status() (*client.Status, error) {
	c, err := client.New(client.Config{Addresses: []string{n.admin()}, Name: clientName, TLS: n.tls, CallTimeout: 5 * time.Second})
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close() }() // its connections are what closes
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return c.Status(ctx, n.admin())
}

// untilStatus polls the status until it is as wanted.
func (n *node) untilStatus(what string, good func(*client.Status) bool) *client.Status {
	n.t.Helper()
	var s *client.Status
	programs.Eventually(n.t, patience, func() string {
		if !n.up() {
			n.t.Fatalf("%s ended (%v) before it was %s", n.id, n.proc.Err(), what)
		}
		var err error
		if s, err = n.status(); err != nil {
			return fmt.Sprintf("%s is not %s: %v", n.id, what, err)
		}
		if !good(s) {
			return fmt.Sprintf("%s is not %s: %+v", n.id, what, *s)
		}
		return ""
	})
	return s
}

// follows tells whether a node takes part: it leads and serves, or has a leader.
func follows(s *client.Status) bool {
	return s.RaftState == "Leader" && s.Ready || s.RaftState == "Follower" && s.LeaderID != ""
}

// cli runs the command against some nodes.
func cli(t *testing.T, binary string, admins []string, args ...string) programs.Ran {
	t.Helper()
	return programs.Run(t, []string{"LANCEMASTER_ADDR=" + strings.Join(admins, ","), "LANCEMASTER_CLIENT_NAME=" + clientName}, binary, args...)
}

const clientName = "faults"

// hosts gives out loopback addresses that nobody uses.
var hosts struct {
	sync.Mutex
	next int
}

// newHosts returns so many loopback addresses for nodes.
func newHosts(t *testing.T, n int) []string {
	t.Helper()
	hosts.Lock()
	defer hosts.Unlock()
	var out []string
	for range 10_000 {
		number := os.Getpid()*16 + hosts.next
		hosts.next++
		host := fmt.Sprintf("127.%d.%d.%d", 64+number>>16&63, number>>8&255, 1+number&127)
		if l, err := net.Listen("tcp", net.JoinHostPort(host, raftPort)); err == nil {
			_ = l.Close()
			out = append(out, host)
		}
		if len(out) == n {
			return out
		}
	}
	t.Fatal("no free loopback addresses were found")
	return nil
}
