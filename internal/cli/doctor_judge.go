package cli

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lancemaster/lancemaster/internal/client"
)

// From when on something is worth a word, as the alert rules have it.
const (
	clockWarn   = 10 * time.Second
	clockFail   = time.Minute // the masters agree within it, or jobs are not sent
	pendingWarn = 15 * time.Minute
	expiryWarn  = 14 * 24 * time.Hour
	expiryFail  = 24 * time.Hour
	diskWarn    = 0.1
	diskFail    = 0.03
	lagWarn     = 1000    // entries
	logWarn     = 100_000 // entries since the newest snapshot
)

// judged tells what the evidence comes to.
func (e *evidence) judged() checks {
	var l checks
	e.judgeMasters(&l)
	e.judgeLeader(&l)
	e.judgeVersions(&l)
	e.judgeMembers(&l)
	e.judgeClocks(&l)
	e.judgeQuarantine(&l)
	e.judgeGate(&l)
	e.judgeCertificates(&l)
	e.judgeReloads(&l)
	e.judgePages(&l)
	e.judgeBackends(&l)
	e.judgeReports(&l)
	e.judgeJobs(&l)
	if e.clusterErr != nil && len(e.masters) > 0 {
		l.add(doctorNote, "backends", "run this again when there is a leader", "they, jobs and settings were not looked at: only the leader knows how they are")
	}
	for _, what := range slices.Sorted(maps.Keys(e.missed)) {
		why, next := toldBy(e.missed[what], "see what the masters log")
		l.add(doctorFail, what, next, "the leader was asked for them in vain: %s", why)
	}
	return l
}

func (e *evidence) judgeMasters(l *checks) {
	for _, m := range e.masters {
		s := m.status
		switch {
		case m.err != nil && refuses(m.err):
			why, next := toldBy(m.err, "see docs/security.md")
			l.add(doctorFail, "master "+m.name(), next, "it answers at %s, and refuses you: %s", m.address, why)
		case m.err != nil && m.node == "":
			why, next := toldBy(m.err, nextRuns)
			l.add(doctorFail, "master "+m.address, next, "it does not answer: %s", why)
		case m.err != nil:
			why, next := toldBy(m.err, "ask it at its own machine, or name an address of it with --addr")
			l.add(doctorWarn, "master "+m.node, next, "its admin service cannot be reached from here at %s, which the cluster names: %s", m.address, why)
		case m.node != "" && s.NodeID != m.node:
			l.add(doctorWarn, "master "+m.node, "ask it at its own machine, or name an address of it with --addr",
				"at %s, which the cluster names, %s answers", m.address, s.NodeID)
		case s.WaitingFor != "":
			l.add(doctorFail, "master "+s.NodeID, waitingNext(s.WaitingFor), "it has no cluster and is waiting: %s", s.WaitingFor)
		case !s.Ready && !standby(s):
			l.add(doctorFail, "master "+s.NodeID, "see what it logs", "it answers at %s and is not ready: %s", m.address, s.NotReadyReason)
		default:
			l.add(doctorOK, "master "+s.NodeID, "", "it answers at %s: %s, version %s, since %s", m.address, raftState(s), s.Version, moment(s.StartedAt))
		}
	}
	for _, m := range e.unseen() {
		l.add(doctorWarn, "master "+m.NodeID, "ask it at its own machine, or name an address of it with --addr",
			"its admin service is for its own machine, at %q, and was not asked", m.AdminAddress)
	}
}

// refuses reports whether a failure is a master's answer to who calls.
func refuses(err error) bool {
	return client.IsCode(err, "UNAUTHENTICATED") || client.IsCode(err, "PERMISSION")
}

// waitingNext is what to do for a master that is waiting, where that does not say so itself.
func waitingNext(why string) string {
	if strings.Contains(why, "run `lancemaster ") {
		return ""
	}
	return "let it form or join a cluster: docs/clusters.md explains each reason"
}

// nextRuns is what to do about one of several masters where nobody is.
const nextRuns = "see that it runs, and that this is its admin.listen: systemctl status lancemaster"

// startOne reports whether a next step is for where no master is known at all.
func startOne(next string) bool { return strings.HasPrefix(next, "start a master") }

// toldBy is why a question failed, and what to do about it: what the failure itself says, unless that is
// only that nobody was there.
func toldBy(err error, next string) (why, do string) {
	var failed *client.Error
	if !errors.As(err, &failed) {
		return err.Error(), next
	}
	if failed.Next == "" || startOne(failed.Next) {
		return failed.Message, next
	}
	return failed.Message, failed.Next
}

// unseen are the members that answer others and were not asked from here.
func (e *evidence) unseen() []client.Member {
	var out []client.Member
	if e.cluster == nil {
		return nil
	}
	for _, m := range e.cluster.Members {
		asked := func(s *masterSeen) bool {
			return s.node == m.NodeID || s.status != nil && s.status.NodeID == m.NodeID || s.address == m.AdminAddress
		}
		if (m.Reachable || m.ThisNode) && !slices.ContainsFunc(e.masters, asked) {
			out = append(out, m)
		}
	}
	return out
}

// standby reports whether a master serves by way of the leader that it knows.
func standby(s *client.Status) bool {
	return !s.Ready && s.RaftState == "Follower" && s.LeaderID != "" && s.LeaderID != s.NodeID
}

// standings are what the masters that answered say of who leads, and of which cluster they are.
type standings struct {
	masters  int                 // that answered, each counted once
	named    map[string][]string // by the leader named, or none
	clusters map[string][]string
}

func (e *evidence) standings() standings {
	told, st := map[string]bool{}, standings{named: map[string][]string{}, clusters: map[string][]string{}}
	for _, m := range e.masters {
		s := m.status
		if s == nil || told[s.NodeID] {
			continue
		}
		told[s.NodeID] = true
		if s.WaitingFor != "" {
			continue // it is told of already, and knows nothing
		}
		st.named[s.LeaderID] = append(st.named[s.LeaderID], s.NodeID)
		which := fmt.Sprintf("cluster %d in incarnation %d", s.ClusterID, s.Incarnation)
		st.clusters[which] = append(st.clusters[which], s.NodeID)
	}
	st.masters = len(told)
	return st
}

func (e *evidence) judgeLeader(l *checks) {
	st := e.standings()
	named := st.named
	lost := 0 // masters that know no leader, where one answers whom all the others name: each is told of already
	if e.clusterErr == nil && e.cluster != nil && len(named) == 2 && named[""] != nil {
		lost = len(named[""])
		delete(named, "")
	}
	if len(st.clusters) > 1 {
		l.add(doctorFail, "cluster", "leave out the masters of other clusters; stop those of an older incarnation for good", "the masters are not of one cluster: %s", divided(st.clusters))
	}
	const next = "see that more than half of the voters run and reach each other: lancemaster cluster status --stale"
	switch {
	case st.masters == 0 && slices.ContainsFunc(e.masters, func(m *masterSeen) bool { return m.err != nil && refuses(m.err) }):
		l.add(doctorFail, "leader", "see the masters above", "no master that answers lets you in, so who leads is not known")
	case st.masters == 0:
		l.add(doctorFail, "leader", "start the masters, or name their addresses with --addr", "no master answers")
	case len(named) == 0 || len(named) == 1 && named[""] != nil:
		l.add(doctorFail, "leader", next, "no master knows a leader")
	case len(named) > 1:
		l.add(doctorFail, "leader", next+", and run this again: an election may be under way", "the masters do not agree on who leads: %s", divided(named))
	case e.clusterErr != nil:
		why, next := toldBy(e.clusterErr, next)
		l.add(doctorFail, "leader", next, "it cannot be asked: %s", why)
	default:
		for leader, by := range named {
			said := masters(len(by))
			if lost > 0 {
				said = fmt.Sprintf("%d of %d", len(by), len(by)+lost)
			}
			l.add(doctorOK, "leader", "", "%s leads: said by %s asked", leader, said)
		}
	}
}

// masters counts those that agree.
func masters(n int) string {
	if n == 1 {
		return "the one"
	}
	return fmt.Sprintf("all %d", n)
}

// divided tells who says what.
func divided(by map[string][]string) string {
	var out []string
	for _, what := range slices.Sorted(maps.Keys(by)) {
		who := strings.Join(by[what], ", ")
		if what == "" {
			what = "nothing known"
		}
		out = append(out, fmt.Sprintf("%s (%s)", what, who))
	}
	return strings.Join(out, "; ")
}

func (e *evidence) judgeVersions(l *checks) {
	versions, levels := map[string][]string{}, map[string][]string{}
	told := map[string]bool{}
	add := func(node, version string, level int32) {
		if node == "" || version == "" || told[node] {
			return
		}
		told[node] = true
		versions[version] = append(versions[version], node)
		if level == 0 {
			return // it has no cluster yet
		}
		levels[fmt.Sprint(level)] = append(levels[fmt.Sprint(level)], node)
	}
	for _, m := range e.masters {
		if s := m.status; s != nil {
			add(s.NodeID, s.Version, s.FeatureLevel)
		}
	}
	if e.cluster != nil {
		for _, m := range e.cluster.Members {
			if m.Reachable || m.ThisNode {
				add(m.NodeID, m.Version, m.FeatureLevel)
			}
		}
	}
	if len(told) == 0 {
		return
	}
	if len(versions) > 1 {
		l.add(doctorWarn, "versions", "finish the upgrade: bring all masters to one version", "they differ: %s", divided(versions))
	}
	if len(levels) > 1 {
		l.add(doctorWarn, "feature levels", "run this again; a master that stays behind has not caught up: lancemaster cluster status", "they differ: %s", divided(levels))
	}
	if len(versions) == 1 && len(levels) == 1 { // all that are in a cluster
		for v := range versions {
			l.add(doctorOK, "versions", "", "%s at feature level %s: run by %s", v, slices.Collect(maps.Keys(levels))[0], masters(len(told)))
		}
	}
}
