package cli

import (
	"context"
	"crypto/tls"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lancemaster/lancemaster/internal/client"
)

// Bounds of what the doctor asks.
const (
	lookTime = 5 * time.Second  // of one question to one master
	leadTime = 10 * time.Second // of one question to the leader, the search for it included
	seekTime = 2 * time.Second  // of the search for a leader where no master knows one: an election fits in
	lookJobs = 1000             // jobs looked at of each kind
)

// evidence is what was found, before it is judged.
type evidence struct {
	now        time.Time
	secure     bool // TLS is spoken
	masters    []*masterSeen
	pages      []*pageSeen // of --http
	cluster    *client.Cluster
	clusterErr error // of asking the leader
	settings   []client.Setting
	backends   []client.Backend
	unknown    *client.JobPage
	pending    *client.JobPage
	refreshing *client.JobPage
	missed     map[string]error // what the leader was asked for in vain
}

// masterSeen is what one master said by itself.
type masterSeen struct {
	address string
	node    string // that the cluster has there; empty where --addr names it
	status  *client.Status
	err     error
	expiry  time.Time // of its admin service's certificate
	page    *pageSeen // nil: there is no address at which to ask for it
}

func (m *masterSeen) name() string {
	switch {
	case m.status != nil:
		return m.status.NodeID
	case m.node != "":
		return m.node
	}
	return m.address
}

// examine asks everybody, some at a time, and waits for all answers.
func (a *cli) examine(ctx context.Context, pages []string) (*evidence, error) {
	c, err := a.connect()
	if err != nil {
		return nil, err
	}
	defer c.Close()
	secure, err := a.access.tls()
	if err != nil {
		return nil, err
	}
	e := &evidence{now: time.Now(), secure: secure != nil, missed: map[string]error{}}
	for _, address := range c.Addresses() {
		e.masters = append(e.masters, &masterSeen{address: address})
	}
	e.each(func(m *masterSeen) { m.look(ctx, c, secure) })
	e.askLeader(ctx, c)
	if e.cluster == nil {
		a.askAnybody(ctx, e)
	}
	asked := len(e.masters)
	e.addMembers()
	var wg sync.WaitGroup
	for i, m := range e.masters {
		wg.Go(func() {
			if i >= asked {
				m.look(ctx, c, secure)
			}
			if address := m.pageAddress(); address != "" && len(pages) == 0 {
				m.page = lookAtPage(ctx, address, secure)
			}
		})
	}
	e.pages = make([]*pageSeen, len(pages))
	for i, address := range pages {
		wg.Go(func() { e.pages[i] = lookAtPage(ctx, address, secure) })
	}
	wg.Wait()
	return e, nil
}

func (e *evidence) each(f func(*masterSeen)) {
	var wg sync.WaitGroup
	for _, m := range e.masters {
		wg.Go(func() { f(m) })
	}
	wg.Wait()
}

// look asks a master how it sees itself, and looks at its certificate.
func (m *masterSeen) look(ctx context.Context, c *client.Client, secure *tls.Config) {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	if m.status, m.err = c.Status(ctx, m.address); m.err != nil || secure == nil {
		return
	}
	network, address := "tcp", m.address
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		network, address = "unix", path
	}
	conn, err := (&tls.Dialer{Config: secure}).DialContext(ctx, network, address)
	if err != nil {
		return // it has just answered; what can be told is told of the metrics
	}
	defer conn.Close()
	if t, ok := conn.(*tls.Conn); ok {
		for _, cert := range t.ConnectionState().PeerCertificates {
			if m.expiry.IsZero() || cert.NotAfter.Before(m.expiry) {
				m.expiry = cert.NotAfter
			}
		}
	}
}

// askLeader asks for what the leader knows. Each question may fail by itself.
func (e *evidence) askLeader(ctx context.Context, c *client.Client) {
	limit := leadTime
	if !slices.ContainsFunc(e.masters, func(m *masterSeen) bool { return m.status != nil && m.status.LeaderID != "" }) {
		limit = seekTime
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if e.cluster, e.clusterErr = c.Cluster(ctx); e.clusterErr != nil {
		return
	}
	var err error
	jobs := func(q client.JobQuery) *client.JobPage {
		q.Limit = lookJobs
		list, failed := c.Jobs(ctx, q)
		if failed != nil {
			e.missed["jobs"] = failed
			return nil
		}
		return list
	}
	if e.settings, err = c.Settings(ctx); err != nil {
		e.missed["settings"] = err
	}
	if e.backends, err = c.Backends(ctx); err != nil {
		e.missed["backends"] = err
	}
	held := true
	e.unknown = jobs(client.JobQuery{States: []string{client.StateUnknown}, Unresolved: &held})
	e.pending = jobs(client.JobQuery{States: []string{client.StatePending}})
	e.refreshing = jobs(client.JobQuery{RefreshStates: []string{"FAILED"}, Unresolved: &held})
}

// askAnybody has a master say who the members are, where no leader does.
func (a *cli) askAnybody(ctx context.Context, e *evidence) {
	c, err := a.connectFor(func(client.Staleness) {})
	if err != nil {
		return
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	if k, err := c.Cluster(ctx); err == nil {
		e.cluster = k
	}
}

// addMembers adds the masters that the cluster names and that were not asked yet.
func (e *evidence) addMembers() {
	if e.cluster == nil {
		return
	}
	seen := map[string]bool{}
	for _, m := range e.masters {
		seen[m.address] = true
		if m.status != nil {
			seen[m.status.NodeID] = true
		}
	}
	for _, m := range e.cluster.Members {
		address := from(m.AdminAddress, m.Address)
		if address == "" || seen[m.NodeID] || seen[address] {
			continue
		}
		e.masters = append(e.masters, &masterSeen{address: address, node: m.NodeID})
	}
}

// from is where an address that a master tells can be reached from here, given another at which it can:
// one for all interfaces is at the other's host, and one of its own machine is nowhere, unless that is
// this machine. It is empty where that is so.
func from(told, reached string) string {
	host, port, err := net.SplitHostPort(told)
	if err != nil || strings.HasPrefix(told, "unix:") {
		return ""
	}
	other, here := "", true
	if !strings.HasPrefix(reached, "unix:") { // which is of this machine
		other, _, _ = net.SplitHostPort(reached)
		here = local(other)
	}
	switch ip, err := netip.ParseAddr(host); {
	case host == "" || err == nil && ip.IsUnspecified():
		if here && other == "" {
			other = "127.0.0.1"
		}
		return net.JoinHostPort(other, port)
	case local(host) && !here:
		return ""
	}
	return told
}

func local(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

func (m *masterSeen) pageAddress() string {
	if m.status == nil {
		return ""
	}
	return from(m.status.HTTPAddress, m.address)
}
