package cli

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lancemaster/lancemaster/internal/client"
)

func (e *evidence) judgeMembers(l *checks) {
	k := e.cluster
	if k == nil {
		return
	}
	var newest int64
	for _, m := range k.Members {
		newest = max(newest, m.AppliedIndex)
	}
	reached := e.votersReached()
	start := "start it"
	for _, m := range k.Members {
		if reached >= int(k.Quorum) { // else nobody can be replaced
			start = "start it; if its disk is lost, lancemaster cluster replace " + m.NodeID
		}
		name := "member " + m.NodeID
		switch lag := newest - m.AppliedIndex; {
		case !m.Reachable && !m.ThisNode && strings.Contains(m.LastError, "run `lancemaster "):
			l.add(doctorFail, name, "", "%s does not take it for the member at %s: %s", k.Node.NodeID, m.Address, m.LastError)
		case !m.Reachable && !m.ThisNode:
			l.add(doctorFail, name, start, "%s does not reach it at %s: %s", k.Node.NodeID, m.Address, orUnknown(m.LastError))
		case !m.Voter:
			l.add(doctorWarn, name, "wait until it has caught up: lancemaster cluster status", "it does not vote yet, %s behind", entries(lag))
		case lag > lagWarn:
			l.add(doctorWarn, name, "see whether its disk or its network is slow", "it is %s behind", entries(lag))
		}
	}
	switch {
	case k.Voters == 0:
	case reached < int(k.Quorum):
		l.add(doctorFail, "voters", "start those that are down; if their disks are gone for good, see docs/backup.md: lancemaster cluster recover",
			"%s reaches %d of %d and %d are needed: nothing can be changed, and reads need --stale", k.Node.NodeID, reached, k.Voters, k.Quorum)
	case k.Voters == 1:
		l.add(doctorNote, "voters", "", "there is one, and it may not be lost; three bear the loss of one")
	case k.FailuresTolerated == 0:
		l.add(doctorWarn, "voters", "bring back or replace those that are lost, or add a master: lancemaster cluster add", "%d, of which %d are needed: none may be lost now", k.Voters, k.Quorum)
	default:
		l.add(doctorOK, "voters", "", "%d, of which %d are needed: %d may be lost now", k.Voters, k.Quorum, k.FailuresTolerated)
	}
	for _, w := range clusterWarnings(k) {
		if !toldOf(k, w) {
			l.add(doctorWarn, "cluster", "", "%s", w)
		}
	}
}

// votersReached counts the voters that the master which told of the members reaches, itself among them.
func (e *evidence) votersReached() int {
	n := 0
	for _, m := range e.cluster.Members {
		if m.Voter && (m.Reachable || m.ThisNode) {
			n++
		}
	}
	return n
}

// toldOf reports whether a check of the doctor's own is of what the cluster warns of.
func toldOf(k *client.Cluster, warning string) bool {
	return strings.HasPrefix(warning, "the cluster is quarantined") || strings.HasPrefix(warning, "the clocks of ") ||
		k.FailuresTolerated == 0 && strings.Contains(warning, "voting member") ||
		slices.ContainsFunc(k.Members, func(m client.Member) bool {
			return strings.HasPrefix(warning, m.NodeID+" is not reachable") || strings.HasPrefix(warning, m.NodeID+" does not vote")
		})
}

func orUnknown(s string) string {
	if s == "" {
		return "why is not known"
	}
	return s
}

func (e *evidence) judgeClocks(l *checks) {
	if e.cluster != nil {
		ahead, behind, apart := e.clocksApart()
		const next = "let all masters take their time from the same source: chronyc tracking, or timedatectl"
		result, advice := doctorOK, ""
		switch {
		case apart > clockFail:
			result, advice = doctorFail, next
		case apart > clockWarn:
			result, advice = doctorWarn, next
		}
		switch {
		case ahead == "":
		case apart < 100*time.Millisecond:
			l.add(doctorOK, "clocks", "", "those of all members that were heard are within 0.1s")
		default:
			l.add(result, "clocks", advice, "%s is ahead of %s by %s, and no two are further apart", ahead, behind, seconds(client.Duration(apart)))
		}
	}
	for _, p := range e.allPages() {
		if p.page.dated && p.page.ahead.Abs() > clockWarn {
			which := "ahead of"
			if p.page.ahead < 0 {
				which = "behind"
			}
			l.add(doctorNote, "clock here", "", "that of %s is %s %s this machine's, to a second, as the time in its HTTP answers is", p.name, client.Duration(p.page.ahead.Abs()), which)
		}
	}
}

// clocksApart are the two members whose clocks differ most, as the master knows that told of them: it
// compares each with its own, to milliseconds. The names are empty where nothing is known.
func (e *evidence) clocksApart() (ahead, behind string, by time.Duration) {
	self := e.cluster.Node.NodeID
	first, last := time.Duration(0), time.Duration(0)
	fast, slow, known := self, self, false
	for _, m := range e.cluster.Members {
		if m.ClockOffset == nil || m.ThisNode {
			continue
		}
		d := time.Duration(*m.ClockOffset)
		if d > first || !known && d == 0 {
			first, fast = d, m.NodeID
		}
		if d < last {
			last, slow = d, m.NodeID
		}
		known = true
	}
	if !known {
		return "", "", 0
	}
	return fast, slow, first - last
}

func (e *evidence) judgeQuarantine(l *checks) {
	told := false
	for _, m := range e.masters {
		if s := m.status; s != nil && s.Quarantined && !told {
			told = true
			l.add(doctorFail, "quarantine", "settle what the older incarnation left, then: lancemaster cluster reopen --note TEXT",
				"the cluster is quarantined since %s: %s", moment(s.QuarantinedAt), orUnknown(s.QuarantineCause))
		}
	}
	if e.clusterErr == nil && e.cluster != nil && e.cluster.Node.Quarantined {
		for _, b := range e.backends {
			if at := e.cluster.Node.QuarantinedAt; startedBefore(b, at) {
				l.add(doctorWarn, fmt.Sprintf("backend %d", b.ID), "restart it before the cluster is reopened, unless every old master had stopped at least 10 seconds before it started",
					"%s %s", hostPort(b.Host, b.Port), answersAsOld(b, at))
			}
		}
	}
	if !told && e.cluster != nil {
		l.add(doctorOK, "quarantine", "", "none")
	}
}

func (e *evidence) judgeGate(l *checks) {
	if e.settings == nil {
		return
	}
	first := ""
	if slices.ContainsFunc(e.masters, func(m *masterSeen) bool { return m.status != nil && m.status.Quarantined }) {
		first = "reopen the cluster first (above), before which this is refused; then "
	}
	value := map[string]string{}
	for _, s := range e.settings {
		value[s.Name] = s.Value
	}
	closed := false
	if value["admission.enabled"] == "false" {
		closed = true
		l.add(doctorNote, "admission", first+"open it when it is to be: lancemaster settings set admission.enabled=true", "the gate is closed: new jobs are refused")
	}
	if value["dispatch.paused"] == "true" {
		closed = true
		l.add(doctorNote, "dispatch", first+"go on when it is to be: lancemaster settings set dispatch.paused=false", "it is paused: no job is sent to a backend")
	}
	if !closed {
		l.add(doctorOK, "admission", "", "the gate is open and dispatch goes on")
	}
}

// expiring is when the first certificate of a master expires.
type expiring struct {
	whose string
	at    time.Time
}

// expiries are those of all masters that show or tell theirs.
func (e *evidence) expiries() []expiring {
	var all []expiring
	add := func(whose string, at time.Time) {
		i := slices.IndexFunc(all, func(x expiring) bool { return x.whose == whose })
		switch {
		case i < 0:
			all = append(all, expiring{whose, at})
		case at.Before(all[i].at):
			all[i].at = at
		}
	}
	for _, m := range e.masters {
		if !m.expiry.IsZero() {
			add(m.name(), m.expiry)
		}
	}
	for _, p := range e.allPages() {
		if at, ok := p.page.of("lancemaster_tls_certificate_expiry_timestamp_seconds"); ok && at > 0 {
			add(p.name, time.Unix(int64(at), 0))
		}
	}
	return all
}

func (e *evidence) judgeCertificates(l *checks) {
	all := e.expiries()
	if len(all) == 0 {
		if len(e.masters) > 0 && !e.secure {
			l.add(doctorNote, "certificates", "", "none was seen: TLS is not spoken here, and no metrics tell of any")
		}
		return
	}
	good := !e.certificatesStale()
	for _, x := range all {
		next := fmt.Sprintf("replace the files of tls.cert_file and tls.key_file on %s, which it reads again by itself: lancemaster tls cert --force makes new ones", x.whose)
		result, when := doctorOK, ""
		switch left := x.at.Sub(e.now); {
		case left <= 0:
			result, when = doctorFail, "expired"
		case left < expiryFail:
			result, when = doctorFail, "expires within a day"
		case left < expiryWarn:
			result, when = doctorWarn, "expires in "+wholeDays(left)
		}
		if result != doctorOK {
			good = false
			l.add(result, "certificate "+x.whose, next, "it %s, at %s", when, x.at.UTC().Format(time.RFC3339))
		}
	}
	if good {
		first := slices.MinFunc(all, func(a, b expiring) int { return a.at.Compare(b.at) })
		l.add(doctorOK, "certificates", "", "the first to expire, of %s, does in %s, at %s", first.whose, wholeDays(first.at.Sub(e.now)), first.at.UTC().Format(time.RFC3339))
	}
}

func wholeDays(d time.Duration) string { return counted(int(d/(24*time.Hour)), "day") }

// entries counts those of the journal.
func entries(n int64) string {
	if n == 1 {
		return "1 entry"
	}
	return fmt.Sprintf("%d entries", n)
}

// pageOf is a page of metrics and whose it is.
type pageOf struct {
	name string
	page *pageSeen
}

// allPages are the pages that could be read.
func (e *evidence) allPages() []pageOf {
	var out []pageOf
	for _, m := range e.masters {
		if m.page != nil && m.page.err == nil {
			out = append(out, pageOf{m.name(), m.page})
		}
	}
	for _, p := range e.pages {
		if p.err == nil {
			out = append(out, pageOf{p.address, p})
		}
	}
	return out
}

func (e *evidence) judgePages(l *checks) {
	const next = "name where it can be reached with --http, or ask at the master's own machine"
	for _, p := range e.pages {
		if p.err != nil {
			l.add(doctorWarn, "metrics "+p.address, "see that this is a master's http.listen, with TLS if http.tls says so", "they cannot be read, so its disk was not looked at: %v", p.err)
		}
	}
	for _, m := range e.masters {
		switch {
		case m.page != nil && m.page.err != nil:
			l.add(doctorWarn, "metrics "+m.name(), next, "they cannot be read, so its disk was not looked at: %v", m.page.err)
		case m.page == nil && m.status != nil && len(e.pages) == 0:
			l.add(doctorNote, "metrics "+m.name(), next, "they are for its own machine, at %q, so its disk was not looked at", m.status.HTTPAddress)
		}
	}
	for _, p := range e.allPages() {
		p.judgeDisk(e.now, l)
	}
}

func (p pageOf) judgeDisk(now time.Time, l *checks) {
	avail, known := p.page.of("lancemaster_data_filesystem_avail_bytes")
	size, sized := p.page.of("lancemaster_data_filesystem_size_bytes")
	if known && sized && size > 0 {
		result, next := doctorOK, ""
		switch left := avail / size; {
		case left < diskFail:
			result, next = doctorFail, "free space at once: what cannot be written is refused"
		case left < diskWarn:
			result, next = doctorWarn, "free space, or make the file system larger"
		}
		l.add(result, "disk "+p.name, next, "%.0f%% of the data directory's file system is free, %.1f GB", 100*avail/size, avail/1e9)
	}
	last, _ := p.page.of("lancemaster_raft_last_log_index")
	reaches, known := p.page.of("lancemaster_raft_snapshot_index")
	if !known {
		return
	}
	when, since := "there is none yet", "in the log"
	if at, ok := p.page.of("lancemaster_raft_snapshot_timestamp_seconds"); ok && at > 0 {
		since = "since"
		when = fmt.Sprintf("the newest is of %s", time.Unix(int64(at), 0).UTC().Format(time.RFC3339))
		if age := now.Sub(time.Unix(int64(at), 0)); age > 0 {
			when += fmt.Sprintf(", %s old", seconds(client.Duration(age)))
		}
	}
	if last-reaches > logWarn {
		l.add(doctorWarn, "snapshot "+p.name, "see why none is taken: the master logs it, and needs space on its disk", "%s; the log has grown by %s since", when, entries(int64(last-reaches)))
		return
	}
	l.add(doctorOK, "snapshot "+p.name, "", "%s, with %s %s", when, entries(int64(last-reaches)), since)
}
