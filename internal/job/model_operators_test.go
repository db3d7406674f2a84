package job_test

import (
	"sort"

	"github.com/lancemaster/lancemaster/internal/job"
)

// due is the refresh that the job's state makes count.
func (j *modelJob) due() (state *string, attempt *int64) {
	if j.state == "UNKNOWN" {
		return &j.late, &j.lateTry
	}
	return &j.refresh, &j.attempt
}

func (j *modelJob) terminal() bool { return j.state != "PENDING" && j.state != "RUNNING" }

func (m *model) refreshStart(c job.RefreshStart) job.Code {
	j := m.jobs[c.Job]
	switch {
	case j == nil:
		return job.CodeNotFound
	case !j.terminal():
		return job.CodeWrongState
	case j.rev != c.Expected:
		return job.CodeRevisionMismatch
	}
	state, attempt := j.due()
	if *state != "REQUIRED" && (*state != "FAILED" || j.state == "UNKNOWN") {
		return job.CodeWrongState
	}
	*state = "RUNNING"
	*attempt++
	j.rev++
	return ok
}

func (m *model) refreshFinish(c job.RefreshFinish) job.Code {
	j := m.jobs[c.Job]
	if j == nil {
		return job.CodeNotFound
	}
	state, attempt := j.due()
	if *state != "RUNNING" || *attempt != c.Attempt {
		return job.CodeAttemptMismatch
	}
	wasOpen := j.open()
	*state = "DONE"
	if c.Failed {
		*state = "FAILED"
	}
	j.moved(c.At, wasOpen)
	return ok
}

func (m *model) endPending(id job.ID, expected job.Revision, at job.Millis) job.Code {
	j := m.jobs[id]
	switch {
	case j == nil:
		return job.CodeNotFound
	case j.state != "PENDING":
		return job.CodeWrongState
	case j.rev != expected:
		return job.CodeRevisionMismatch
	}
	j.state = "NOT_COMMITTED"
	j.moved(at, true)
	return ok
}

func (m *model) forceRelease(c job.ForceRelease) job.Code {
	j := m.jobs[c.Job]
	switch {
	case j == nil:
		return job.CodeNotFound
	case j.released:
		return existing
	case j.state != "UNKNOWN":
		return job.CodeWrongState
	case c.Note == "":
		return job.CodeInvalid
	case j.rev != c.Expected:
		return job.CodeRevisionMismatch
	}
	m.everForced++
	j.released, j.slot = true, false
	j.moved(c.At, true)
	return ok
}

func (m *model) releaseSlot(c job.ReleaseSlot) job.Code {
	j := m.jobs[c.Job]
	switch {
	case c.Note == "":
		return job.CodeInvalid
	case j == nil:
		return job.CodeNotFound
	case !j.terminal():
		return job.CodeWrongState
	case j.rev != c.Expected:
		return job.CodeRevisionMismatch
	case !j.slot:
		return job.CodeWrongState
	}
	m.everReleased++
	j.slot = false
	j.moved(c.At, true)
	return ok
}

func (m *model) termStart(c job.TermStart) job.Code {
	if c.Term <= m.term {
		return job.CodeStaleTerm
	}
	m.term = c.Term
	for _, j := range m.jobs {
		if !j.terminal() {
			if j.state == "RUNNING" && m.strict {
				j.state = "UNKNOWN"
				j.results = append(j.results, "the leader changed")
				j.rev++
			}
			continue
		}
		if state, _ := j.due(); *state == "RUNNING" {
			*state = "REQUIRED"
			j.rev++
		}
	}
	return ok
}

func (m *model) quarantine(c job.Quarantine) job.Code {
	if c.Incarnation != m.incarnation+1 {
		return job.CodeInvalid
	}
	m.incarnation++
	m.next += 1 << 32
	m.nextBack += 1 << 32
	m.quarantined, m.gate, m.paused, m.quarantinedAt = true, false, true, c.At
	m.members = map[string][2]string{}
	for _, s := range c.Members {
		m.members[s.NodeID] = [2]string{s.InstanceID, s.Address}
	}
	for _, j := range m.jobs {
		if !j.terminal() {
			j.state = "UNKNOWN"
			j.results = append(j.results, "quarantined")
			j.rev++
		}
	}
	return ok
}

func (m *model) reopen(c job.Reopen) job.Code {
	switch {
	case !m.quarantined:
		return job.CodeWrongState
	case c.Note == "", !c.MastersStopped, !c.BackendsRestarted:
		return job.CodeInvalid
	case c.At-m.quarantinedAt < 10_000:
		return job.CodeTooEarly
	}
	m.quarantined = false
	m.everReopened++
	return ok
}

func (m *model) putMember(c job.PutMember) job.Code {
	for id, have := range m.members {
		if have[0] == c.InstanceID && id != c.NodeID {
			return job.CodeAlreadyExists
		}
	}
	have, known := m.members[c.NodeID]
	is := [2]string{c.InstanceID, c.Address}
	switch {
	case !known && c.Replaces != "":
		return job.CodeNotFound
	case !known && len(m.members) == 16:
		return job.CodeInvalid
	case known && have == is:
		return existing
	case known && have[0] != is[0] && have[0] != c.Replaces:
		return job.CodeInUse
	case known && have[0] != is[0]:
		m.everReplaced++
	}
	m.members[c.NodeID] = is
	return ok
}

func (m *model) removeMember(c job.RemoveMember) job.Code {
	if _, known := m.members[c.NodeID]; !known {
		return job.CodeNotFound
	}
	if len(m.members) == 1 {
		return job.CodeInUse
	}
	delete(m.members, c.NodeID)
	return ok
}

func (m *model) putToken(c job.PutToken) job.Code {
	is := modelToken{c.Role.String(), c.Hash[0]}
	if have, known := m.tokens[c.Token]; known {
		if have == is {
			return existing
		}
		return job.CodeAlreadyExists
	}
	for _, t := range m.tokens {
		if t.hash == is.hash {
			return job.CodeAlreadyExists
		}
	}
	m.tokens[c.Token] = is
	return ok
}

func (m *model) removeToken(c job.RemoveToken) job.Code {
	if _, known := m.tokens[c.Token]; !known {
		return job.CodeNotFound
	}
	delete(m.tokens, c.Token)
	return ok
}

func (m *model) removeResolved(c job.RemoveResolved) job.Code {
	var closed []*modelJob
	for _, j := range m.jobs {
		if !j.open() && j.closed < c.Before {
			closed = append(closed, j)
		}
	}
	sort.Slice(closed, func(a, b int) bool {
		if closed[a].closed != closed[b].closed {
			return closed[a].closed < closed[b].closed
		}
		return closed[a].id < closed[b].id
	})
	for i, j := range closed {
		if i == int(c.Limit) {
			break
		}
		delete(m.jobs, j.id)
		delete(m.requests, j.creator+"/"+j.request)
	}
	return ok
}

func (m *model) backendState(c job.SetBackendState) job.Code {
	switch m.backends[c.Backend] {
	case "":
		return job.CodeNotFound
	case c.State.String():
		return existing
	}
	m.backends[c.Backend] = c.State.String()
	return ok
}

func (m *model) removeBackend(c job.RemoveBackend) job.Code {
	if m.backends[c.Backend] == "" {
		return job.CodeNotFound
	}
	if m.slotsOn(c.Backend) > 0 {
		return job.CodeInUse
	}
	delete(m.backends, c.Backend)
	return ok
}

// addBackend is only ever asked for the address that the id it brings implies.
func (m *model) addBackend(c job.AddBackend) job.Code {
	m.backends[m.nextBack] = "active"
	m.nextBack++
	return ok
}

func (m *model) removeCatalog(c job.RemoveCatalog) job.Code {
	if !m.catalogs[c.Catalog] {
		return job.CodeNotFound
	}
	if m.openIn(c.Catalog) > 0 {
		return job.CodeInUse
	}
	delete(m.catalogs, c.Catalog)
	return ok
}

func (m *model) putCatalog(c job.PutCatalog) job.Code {
	if m.catalogs[c.Catalog.Name] {
		return job.CodeAlreadyExists
	}
	m.catalogs[c.Catalog.Name] = true
	return ok
}

// change takes one setting of those the model knows.
func (m *model) change(name string, value int) job.Code {
	set := func(b *bool) job.Code {
		if *b == (value == 1) {
			return existing
		}
		*b = value == 1
		return ok
	}
	number := func(n *int) job.Code {
		if *n == value {
			return existing
		}
		*n = value
		return ok
	}
	switch name {
	case "admission.enabled":
		if m.quarantined && !m.gate && value == 1 {
			return job.CodeQuarantined
		}
		return set(&m.gate)
	case "dispatch.paused":
		if m.quarantined && m.paused && value == 0 {
			return job.CodeQuarantined
		}
		return set(&m.paused)
	case "leader_change.running":
		return set(&m.strict)
	case "admission.max_unresolved_per_table":
		return number(&m.table)
	case "admission.max_unresolved_per_catalog":
		return number(&m.catalog)
	case "admission.max_unresolved_global":
		return number(&m.global)
	default:
		return number(&m.slots)
	}
}
