package app

import (
	"net"

	"github.com/lancemaster/lancemaster/internal/config"
	"github.com/lancemaster/lancemaster/internal/job"
)

// warnOfReports says so where a backend on another machine is told to report to a loopback address: it finds
// itself there, and each of its jobs ends UNKNOWN. Whether it is on this machine after all only its address
// can tell here, so that nothing is refused for it.
func (a *App) warnOfReports(backends ...*job.Backend) {
	at := a.reportAddress()
	if !config.Loopback(at) {
		return
	}
	for _, b := range backends {
		if !config.Loopback(net.JoinHostPort(b.Address.Host, "0")) {
			a.log.Warn("a backend on another machine is told to report to a loopback address, so that its jobs end UNKNOWN; set report.listen to an address that backends reach, and report.advertise to its name",
				"backend", int64(b.ID), "host", b.Address.Host, "report_address", at)
		}
	}
}

// warnOfAllReports looks at each registered backend, as a term begins.
func (a *App) warnOfAllReports() {
	var all []*job.Backend
	a.machine.Read(func(l *job.Live) { all = l.Backends() })
	a.warnOfReports(all...)
}
