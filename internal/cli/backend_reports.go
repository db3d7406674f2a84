package cli

import (
	"fmt"
	"net"
	"strings"

	"github.com/lancemaster/lancemaster/internal/client"
	"github.com/lancemaster/lancemaster/internal/config"
)

// reachReports is what to do about masters that nobody else can report to.
const reachReports = "set report.listen to an address that backends reach, and report.advertise to its name, and start the master again"

// away reports whether a backend is on another machine than a master, as far as their addresses tell.
func away(b *client.Backend, m *client.Member) bool {
	if config.Loopback(hostPort(b.Host, b.Port)) {
		return false
	}
	for _, address := range []string{m.Address, m.AdminAddress, m.HTTPAddress} {
		if host, _, err := net.SplitHostPort(address); err == nil && host == b.Host {
			return false
		}
	}
	return true
}

// unreportable says which masters tell a backend to report to a loopback address, which leads it to its
// own machine and not to theirs; empty when none does. leads: the leader is one of them, else they may
// lead one day.
func unreportable(members []client.Member, b *client.Backend) (who string, leads bool) {
	var list []string
	for _, m := range members {
		if m.ReportAddress != "" && config.Loopback(m.ReportAddress) && away(b, &m) {
			list = append(list, fmt.Sprintf("%s tells %s", m.NodeID, m.ReportAddress))
			leads = leads || m.Leader
		}
	}
	return strings.Join(list, ", "), leads
}

// judgeReports looks whether backends can tell what came of their jobs.
func (e *evidence) judgeReports(l *checks) {
	if e.cluster == nil {
		return
	}
	for _, b := range e.backends {
		who, leads := unreportable(e.cluster.Members, &b)
		if who == "" {
			continue
		}
		kind := doctorWarn
		if leads {
			kind = doctorFail
		}
		l.add(kind, fmt.Sprintf("backend %d", b.ID), reachReports,
			"%s is told to report to a loopback address, so that its jobs end UNKNOWN unless it runs on that master's machine: %s", hostPort(b.Host, b.Port), who)
	}
}
