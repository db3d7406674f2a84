package job_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lancemaster/lancemaster/internal/job"
)

// refused prints a refusal. A record it carries must be the present one.
func (s *scenario) refused(r *job.Refusal) string {
	text := fmt.Sprintf("refused %s: %s", r.Code, r.Error())
	if r.Holder != 0 {
		text += fmt.Sprintf(" [holder %d]", r.Holder)
	}
	if r.Present != nil {
		if r.Present != s.state.Job(r.Present.ID) {
			s.t.Errorf("%s: the refusal carries another record than the present one", s.line)
		}
		text += fmt.Sprintf(" [present: job %d, %s, revision %d]", r.Present.ID, r.Present.State, r.Present.Revision)
	}
	return text
}

// answered prints what a command did.
func (s *scenario) answered(c job.Change) string {
	var lines []string
	if c.Answer.Existing {
		if len(c.Jobs)+len(c.Settings)+len(c.Members) > 0 || c.Token != nil || c.Cluster != nil || c.Catalog != nil || c.Backend != nil {
			s.t.Errorf("%s: found its work done, and yet changes something", s.line)
		}
		line := "ok, as it is already"
		if c.Answer.Job != nil {
			line += ": " + brief(c.Answer.Job)
		}
		return line
	}
	for _, j := range c.Jobs {
		if j.New == nil {
			lines = append(lines, fmt.Sprintf("removed job %d", j.Old.ID))
			continue
		}
		lines = append(lines, brief(j.New))
	}
	if b := c.Backend; b != nil {
		lines = append(lines, printBackend(b))
	}
	if cat := c.Catalog; cat != nil {
		if cat.New == nil {
			lines = append(lines, fmt.Sprintf("removed catalog %s", cat.Name))
		} else {
			lines = append(lines, fmt.Sprintf("catalog %s, revision %d", cat.Name, cat.New.Revision))
		}
	}
	for _, m := range c.Members {
		lines = append(lines, printMember(m))
	}
	if k := c.Token; k != nil {
		if k.New == nil {
			lines = append(lines, fmt.Sprintf("removed token %s", k.Name))
		} else {
			lines = append(lines, fmt.Sprintf("token %s, role %s", k.Name, k.New.Role))
		}
	}
	for _, v := range c.Settings {
		if v.Old != "" {
			lines = append(lines, fmt.Sprintf("%s: %s -> %s", v.Name, v.Old, v.New))
		}
	}
	if len(lines) == 0 {
		return "ok"
	}
	return strings.Join(lines, "\n")
}

func printBackend(b *job.BackendChange) string {
	if b.New == nil {
		return fmt.Sprintf("removed backend %d", b.ID)
	}
	return fmt.Sprintf("backend %d %s:%d/%d %s", b.ID, b.New.Address.Host, b.New.Address.BePort, b.New.Address.HeartbeatPort, b.New.State)
}

func printMember(m job.MemberChange) string {
	if m.New == nil {
		return "removed member " + m.NodeID
	}
	return "member " + member(m.New)
}

func member(m *job.Member) string {
	return fmt.Sprintf("%s, instance %s at %s, registered at entry %d by %s", m.NodeID, m.InstanceID, m.Address, m.RegisteredAt, m.AddedBy)
}

// registry prints the members and the access tokens.
func (s *scenario) registry() string {
	var lines []string
	for _, m := range s.state.Members() {
		lines = append(lines, fmt.Sprintf("member %s, %d", member(m), m.AddedAt))
	}
	for _, k := range s.state.Tokens() {
		lines = append(lines, fmt.Sprintf("token %s, role %s, hash %x, created by %s at %d", k.Name, k.Role, k.Hash[0], k.CreatedBy, k.CreatedAt))
	}
	return strings.Join(lines, "\n")
}

// brief is one line about a job.
func brief(r *job.Record) string {
	text := fmt.Sprintf("job %d %s, revision %d", r.ID, r.State, r.Revision)
	if r.Result != nil && r.Result.Reason != job.ReasonNone {
		text += ", " + r.Result.Reason.String()
	}
	if r.Refresh.State != job.RefreshNotRequired {
		text += ", refresh " + r.Refresh.State.String()
	}
	if r.LateRefresh.State != job.RefreshNotRequired {
		text += ", late refresh " + r.LateRefresh.State.String()
	}
	return text + ", holds " + holds(r)
}

func holds(r *job.Record) string {
	switch {
	case r.HoldsFence() && r.HoldsSlot():
		return "fence and slot"
	case r.HoldsFence():
		return "fence"
	case r.HoldsSlot():
		return "slot"
	default:
		return "nothing"
	}
}

// held is all that the memory says is held and queued.
func (s *scenario) held() string {
	live := s.state.Live
	var lines []string
	for _, r := range live.Jobs() {
		lines = append(lines, fmt.Sprintf("%s %s", brief(r), r.Target.IndexKey))
	}
	for _, b := range live.Backends() {
		lines = append(lines, fmt.Sprintf("backend %d: %d slots held", b.ID, live.SlotsHeld(b.ID)))
	}
	for _, c := range live.Catalogs() {
		lines = append(lines, fmt.Sprintf("catalog %s: %d open, %d unresolved", c.Name, live.OpenInCatalog(c.Name), live.UnresolvedInCatalog(c.Name)))
	}
	lines = append(lines, fmt.Sprintf("unresolved %d; pending %v, running %v, refresh %v", live.Unresolved(),
		ids(live.Pending()), ids(live.Running()), ids(live.RefreshQueue())))
	return strings.Join(lines, "\n")
}

func ids(records []*job.Record) []job.ID {
	out := []job.ID{}
	for _, r := range records {
		out = append(out, r.ID)
	}
	return out
}

func (s *scenario) cluster() string {
	c := s.state.Cluster()
	text := fmt.Sprintf("id %d, incarnation %d, level %d, next job %d, next backend %d, last term %d",
		c.ClusterID, c.Incarnation, c.Level, c.NextJob, c.NextBackend, c.LastTerm)
	if v := leaderVersion(c); v != "" {
		text += ", leader's version " + v
	}
	if c.Quarantined {
		text += ", quarantined"
	}
	if c.QuarantineCause != "" {
		text += fmt.Sprintf("; quarantine of %d: %s", c.QuarantinedAt, c.QuarantineCause)
	}
	if c.ReopenedAt != 0 {
		text += fmt.Sprintf("; reopened at %d by %s: %s", c.ReopenedAt, c.ReopenedBy, c.ReopenNote)
	}
	return text
}

// settings prints those that differ from the defaults, and who changed them.
func (s *scenario) settings() string {
	var lines []string
	defaults := job.DefaultSettings()
	for _, v := range s.state.SettingValues() {
		if !slices.Contains(defaults, v) {
			lines = append(lines, v.Name+"="+v.Value)
		}
	}
	for _, c := range s.state.Changes {
		if c.Old == "" {
			continue
		}
		line := fmt.Sprintf("changed by %s: %s %s -> %s", c.Actor, c.Name, c.Old, c.New)
		if c.Reset {
			line += " (reset)"
		}
		lines = append(lines, line)
	}
	if len(lines) == 0 {
		return "all as by default"
	}
	return strings.Join(lines, "\n")
}

// show prints a record in full.
func (s *scenario) show(id job.ID) string {
	r := s.state.Job(id)
	if r == nil {
		return "no such job"
	}
	lines := []string{brief(r)}
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	add("by %s, created %d, updated %d, resolved %d, closed %d", r.Creator, r.CreatedAt, r.UpdatedAt, r.ResolvedAt, r.ClosedAt)
	add("%s %s (%s) of %s in %s", r.Spec.Mutation, r.Target.IndexName, r.Target.IndexKey, r.Target.Locator, r.Target.Catalog)
	if d := r.Dispatch; d.Dispatched() {
		add("sent to backend %d, epoch %d, dispatch revision %d, invocation %s; proof %s", d.BackendID, d.ProcessEpoch,
			d.Revision, d.InvocationID, d.Proof)
		for _, e := range d.Evidence {
			add("later proof %s", e.Proof)
		}
	}
	if r.Result != nil {
		code := "none"
		if r.Result.Code != 0 {
			code = r.Result.Code.String()
		}
		add("result %s, reason %s, advanced %v, %q", code, r.Result.Reason, r.Result.MetadataAdvanced, r.Result.Message)
	}
	for _, l := range r.LateResults {
		add("late result %s, advanced %v, %q", l.Code, l.MetadataAdvanced, l.Message)
	}
	lines = append(lines, showRefresh("refresh", r.Refresh)...)
	lines = append(lines, showRefresh("late refresh", r.LateRefresh)...)
	if r.QuarantinedAt != 0 {
		add("quarantined at %d", r.QuarantinedAt)
	}
	if f := r.ForceRelease; f != nil {
		add("force released by %s: %s (%s)", f.Actor, f.Note, f.Warning)
	}
	if f := r.SlotRelease; f != nil {
		add("slot released by %s: %s", f.Actor, f.Note)
	}
	return strings.Join(lines, "\n")
}

func showRefresh(what string, f job.Refresh) []string {
	if f.State == job.RefreshNotRequired {
		return nil
	}
	line := fmt.Sprintf("%s %s, attempt %d", what, f.State, f.Attempt)
	if f.Evidence != "" {
		line += ", " + f.Evidence
	}
	if f.LastFailure != nil {
		line += ", last failure: " + f.LastFailure.Message
	}
	return []string{line}
}

func (s *scenario) history(id job.ID) string {
	var lines []string
	for _, e := range s.state.Events[id] {
		from := "-"
		if e.From != 0 {
			from = e.From.String()
		}
		line := fmt.Sprintf("revision %d: %s by %s, %s -> %s", e.Revision, e.Kind, e.Actor, from, e.To)
		if e.FromRefresh != e.ToRefresh {
			line += fmt.Sprintf(", refresh %s -> %s", e.FromRefresh, e.ToRefresh)
		}
		lines = append(lines, line+": "+e.Reason)
	}
	return strings.Join(lines, "\n")
}
