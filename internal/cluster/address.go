package cluster

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/lancemaster/lancemaster/internal/job"
	"github.com/lancemaster/lancemaster/internal/raftnode"
)

// checkAddress refuses an address of another member that the members cannot reach.
func (c *Cluster) checkAddress(ctx context.Context, id, address string) *job.Refusal {
	host, port, err := net.SplitHostPort(address)
	if err != nil || host == "" || port == "" || port == "0" {
		return refuse(job.CodeInvalid, fmt.Sprintf("%q is not host:port", address), fmt.Sprintf("give the raft.advertise address of %s", id))
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		return refuse(job.CodeInvalid, fmt.Sprintf("%s is an address to listen on, not one to reach", address), fmt.Sprintf("give the raft.advertise address of %s", id))
	}
	own, _, err := net.SplitHostPort(c.cfg.Address)
	if err != nil {
		return refuse(job.CodeInvalid, fmt.Sprintf("this master's own raft address, %q, cannot be read", c.cfg.Address), "set raft.advertise")
	}
	switch {
	case saysLoopback(own) && !c.loopback(ctx, host):
		return refuse(job.CodeInvalid, fmt.Sprintf("this master advertises a loopback address (%s), which %s at %s cannot reach", c.cfg.Address, id, address),
			"set raft.listen and raft.advertise of this master to an address that others reach, restart it, and run the command again")
	case c.leadsBack(ctx, host, own):
		return refuse(job.CodeInvalid, fmt.Sprintf("%s is a loopback address here: it means another machine to each master", address),
			fmt.Sprintf("give an address under which all masters reach %s; look at /etc/hosts if it is a name", id))
	}
	if taken := c.addressOwner(id, address); taken != "" {
		return refuse(job.CodeInvalid, fmt.Sprintf("%s is the address of member %s", address, taken), fmt.Sprintf("give the raft.advertise address of %s", id))
	}
	return nil
}

// addressOwner returns the other member that has an address, or nothing.
func (c *Cluster) addressOwner(id, address string) (owner string) {
	c.cfg.State.Read(func(l *job.Live) {
		for _, m := range l.Members() {
			if m.NodeID != id && m.Address == address {
				owner = m.NodeID
			}
		}
	})
	for _, s := range c.cfg.Raft.Servers() {
		if s.ID != id && s.Address == address {
			owner = s.ID
		}
	}
	return owner
}

// misleads says that an address which a member advertises must not be recorded: it would lead the
// other members to themselves.
func (c *Cluster) misleads(ctx context.Context, id, address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return true
	}
	if id != c.cfg.NodeID {
		own, _, err := net.SplitHostPort(c.cfg.Address)
		return err == nil && c.leadsBack(ctx, host, own)
	}
	return saysLoopback(host) && slices.ContainsFunc(c.cfg.Raft.Servers(), func(s raftnode.Server) bool {
		other, _, err := net.SplitHostPort(s.Address)
		return s.ID != id && err == nil && !saysLoopback(other)
	})
}

// leadsBack says that another member's host leads to this machine from here, while this node's own is
// one that others reach. On one machine for all, a name may do so: others resolve it to the same.
func (c *Cluster) leadsBack(ctx context.Context, host, own string) bool {
	return !saysLoopback(own) && c.loopback(ctx, host) && (saysLoopback(host) || !c.loopback(ctx, own))
}

// saysLoopback says whether a host means this very machine by what it says, wherever it is read. What
// a name resolves to is another matter: many machines map their own to a loopback address.
func saysLoopback(host string) bool {
	if ip := net.ParseIP(host); ip != nil {
		return ip.IsLoopback() || ip.IsUnspecified()
	}
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	return host == "localhost" || host == "ip6-localhost" || host == "localhost.localdomain" || strings.HasSuffix(host, ".localhost")
}

// loopback says whether a host leads to this very machine from here. A name counts when all its
// addresses do; one that cannot be resolved does not.
func (c *Cluster) loopback(ctx context.Context, host string) bool {
	if saysLoopback(host) || net.ParseIP(host) != nil {
		return saysLoopback(host)
	}
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	addrs, err := c.lookup(ctx, host)
	if err != nil || len(addrs) == 0 {
		return false
	}
	return !slices.ContainsFunc(addrs, func(a net.IPAddr) bool { return !a.IP.IsLoopback() })
}
