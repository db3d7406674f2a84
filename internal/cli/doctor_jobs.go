package cli

import (
	"fmt"
	"slices"
	"time"

	"github.com/lancemaster/lancemaster/internal/client"
)

func (e *evidence) judgeBackends(l *checks) {
	if e.cluster == nil || e.clusterErr != nil || e.missed["backends"] != nil {
		return
	}
	if len(e.backends) == 0 {
		l.add(doctorWarn, "backends", "register one: lancemaster backend add HOST", "there are none, so no job can run")
		return
	}
	alive, draining := 0, 0
	for _, b := range e.backends {
		name := fmt.Sprintf("backend %d", b.ID)
		address := hostPort(b.Host, b.Port)
		if b.State == "draining" {
			draining++
		}
		switch {
		case b.Alive:
			alive++
		case b.SlotsHeld > 0:
			l.add(doctorFail, name, fmt.Sprintf("start it again at the same address; if slots stay held, only one process was heard since the send, which proves"+
				" nothing: restart it once more, or release them when you know that the workers are gone; see lancemaster job list --backend %d --open, and job explain", b.ID),
				"%s does not answer, and jobs hold %d of its slots: %s", address, b.SlotsHeld, orUnknown(b.LastError))
		case b.State == "draining":
			l.add(doctorNote, name, fmt.Sprintf("if it is gone for good: lancemaster backend remove %d", b.ID), "%s is draining and does not answer", address)
		default:
			l.add(doctorWarn, name, fmt.Sprintf("start it; if it is gone for good: lancemaster backend remove %d", b.ID), "%s does not answer: %s", address, orUnknown(b.LastError))
		}
	}
	counted := fmt.Sprintf("%d of %d answer, draining: %d", alive, len(e.backends), draining)
	switch usable := slices.ContainsFunc(e.backends, func(b client.Backend) bool { return b.Alive && b.State != "draining" }); {
	case alive == 0:
		l.add(doctorFail, "backends", "start them, or see what keeps the leader from them: lancemaster backend list", "none of %d answers, so no job can run", len(e.backends))
	case !usable:
		l.add(doctorWarn, "backends", "end a drain, or add one: lancemaster backend undrain", "%s: no job can be sent", counted)
	default:
		l.add(doctorOK, "backends", "", "%s", counted)
	}
}

func (e *evidence) judgeJobs(l *checks) {
	if p := e.unknown; p != nil {
		if j := oldest(p); j != nil {
			l.add(doctorWarn, "UNKNOWN jobs", fmt.Sprintf("find out what became of each, and release it: lancemaster job explain %d", j.ID),
				"%s for an operator, the oldest is job %d, admitted %s", waits(p), j.ID, moment(j.CreatedAt))
		} else {
			l.add(doctorOK, "UNKNOWN jobs", "", "none waits for an operator")
		}
	}
	if p := e.refreshing; p != nil {
		if j := oldest(p); j != nil {
			l.add(doctorWarn, "refreshes", fmt.Sprintf("see that the refresher works: lancemaster job explain %d", j.ID), "%s for a refresh that failed, the oldest is job %d", waits(p), j.ID)
		} else {
			l.add(doctorOK, "refreshes", "", "none has failed")
		}
	}
	p := e.pending
	if p == nil {
		return
	}
	j := oldest(p)
	if j == nil {
		l.add(doctorOK, "PENDING jobs", "", "none waits")
		return
	}
	age := e.now.Sub(j.CreatedAt.Time)
	result, next := doctorOK, ""
	if age > pendingWarn {
		result, next = doctorWarn, fmt.Sprintf("see what it waits for: lancemaster job explain %d", j.ID)
	}
	l.add(result, "PENDING jobs", next, "%s to be sent, the oldest is job %d, since %s", waits(p), j.ID, seconds(client.Duration(max(age, 0).Round(time.Second))))
}

// oldest is the last of a page, which has the newest first; nil if it is empty.
func oldest(p *client.JobPage) *client.Job {
	if len(p.Jobs) == 0 {
		return nil
	}
	return &p.Jobs[len(p.Jobs)-1]
}

func waits(p *client.JobPage) string {
	switch n := len(p.Jobs); {
	case p.NextPageToken != "":
		return fmt.Sprintf("more than %d wait", n)
	case n == 1:
		return "1 waits"
	default:
		return fmt.Sprintf("%d wait", n)
	}
}
