package job

import (
	"fmt"
	"math"
	"time"
)

// FirstIncarnation is the incarnation of a cluster that was never restored.
const FirstIncarnation = 1

// quarantineJump is how far the next job id and the next backend id jump with a
// Quarantine: further than a lost journal can have handed out, so that no id is
// ever given twice.
const quarantineJump = ID(1) << 32

// form makes an empty state a cluster's. It brings every setting of its level, so
// that no default of a build ever decides what a command does.
func form(v View, p Position, c Form) (Change, *Refusal) {
	if v.Cluster().ClusterID != 0 {
		return Change{}, refuse(CodeAlreadyFormed, fmt.Sprintf("the cluster was formed already; its id is %d", v.Cluster().ClusterID),
			"a cluster is formed once")
	}
	if c.ClusterID <= 0 {
		return Change{}, invalid("the cluster id is %d; it must be positive", c.ClusterID)
	}
	if c.Level < 1 {
		return Change{}, invalid("the feature level is %d; the first is 1", c.Level)
	}
	changes, refusal := introduce(c.Header, c.Settings, 0, c.Level)
	if refusal != nil {
		return Change{}, refusal
	}
	members, refusal := registry(v, p, c.Header, c.Members)
	if refusal != nil {
		return Change{}, refusal
	}
	return Change{Settings: changes, Members: members, Cluster: &Cluster{
		ClusterID: c.ClusterID, FormedAt: c.At, Incarnation: FirstIncarnation, Level: c.Level,
		NextJob: 1, NextBackend: 1,
	}}, nil
}

// introduce makes the first values of the settings of the levels above from, up
// to to. The values must be those settings', all of them and no other.
func introduce(h Header, values []SettingValue, from, to int32) ([]SettingChange, *Refusal) {
	var want []string
	for _, d := range settingDefs {
		if d.Level > from && d.Level <= to {
			want = append(want, d.Name)
		}
	}
	if len(values) != len(want) {
		return nil, invalid("level %d brings %d settings, and %d were given", to, len(want), len(values))
	}
	var s Settings
	changes := make([]SettingChange, 0, len(values))
	for i, v := range values {
		if v.Name != want[i] {
			return nil, invalid("setting %d is %q where %q is due: settings are given sorted by name, all of the level's",
				i+1, printable(v.Name), want[i])
		}
		value, refusal := CheckSetting(v.Name, v.Value)
		if refusal != nil {
			return nil, refusal
		}
		d, _ := findSetting(v.Name)
		d.assign(&s, value)
		changes = append(changes, SettingChange{Name: v.Name, New: value, At: h.At, Actor: h.Actor})
	}
	if from > 0 {
		return changes, nil // a rule between settings is between those of one level
	}
	return changes, checkTogether(s)
}

// raiseLevel allows the commands and fields of a higher level, for good.
func raiseLevel(v View, c RaiseLevel) (Change, *Refusal) {
	cluster := v.Cluster()
	if c.Level == cluster.Level {
		return Change{Answer: Answer{Existing: true}}, nil
	}
	if c.Level < cluster.Level {
		return Change{}, refuse(CodeUnsupportedLevel,
			fmt.Sprintf("the feature level is %d and was not lowered to %d", cluster.Level, c.Level),
			"the journal may hold what the lower level cannot read; a level is never lowered")
	}
	changes, refusal := introduce(c.Header, c.Defaults, cluster.Level, c.Level)
	if refusal != nil {
		return Change{}, refusal
	}
	cluster.Level = c.Level
	return Change{Settings: changes, Cluster: &cluster}, nil
}

// termStart begins a leader's term. Refreshes of older terms have lost whoever ran
// them and are owed again.
func termStart(v View, p Position, c TermStart) (Change, *Refusal) {
	cluster := v.Cluster()
	if c.Term <= cluster.LastTerm {
		return Change{}, refuse(CodeStaleTerm, fmt.Sprintf("term %d did not begin: term %d has begun already", c.Term, cluster.LastTerm),
			"this leader has been replaced; it must stop")
	}
	cluster.LastTerm = c.Term
	cluster.laterCluster = c.inCluster()
	change := Change{Cluster: &cluster}
	abandon := v.Settings().LeaderChangeUnknown
	for _, id := range v.OpenJobs() {
		r := v.Job(id)
		switch {
		case r == nil:
		case r.State == StateRunning && abandon:
			change.Jobs = append(change.Jobs, transition(r, p, c.Header, EventLeaderChanged, fmt.Sprintf("term %d", c.Term),
				func(r *Record) {
					r.State = StateUnknown
					r.Result = &Result{Code: CodeNoTrustedResult, Reason: ReasonLeaderChanged, At: c.At,
						Message: "the leader changed while the job was running"}
				}))
		case r.State.Terminal() && r.dueRefresh().State == RefreshRunning:
			change.Jobs = append(change.Jobs, transition(r, p, c.Header, EventRefreshReset, fmt.Sprintf("term %d", c.Term),
				func(r *Record) { r.dueRefresh().State = RefreshRequired }))
		}
	}
	change.Answer.Count = len(change.Jobs)
	return change, nil
}

// quarantine follows a restore or a recovery: the journal may lack its end, so
// what it shows as not yet settled may have gone any way.
func quarantine(v View, p Position, c Quarantine) (Change, *Refusal) {
	cluster := v.Cluster()
	if c.Incarnation != cluster.Incarnation+1 {
		return Change{}, invalid("incarnation %d does not follow the present one, %d", c.Incarnation, cluster.Incarnation)
	}
	if r := checkNote("the cause", c.Cause); r != nil {
		return Change{}, r
	}
	members, refusal := registry(v, p, c.Header, c.Members)
	if refusal != nil {
		return Change{}, refusal
	}
	if cluster.NextJob > math.MaxInt64-quarantineJump || cluster.NextBackend > math.MaxInt64-BackendID(quarantineJump) {
		return Change{}, invalid("the ids are used up")
	}
	cluster.Incarnation = c.Incarnation
	cluster.NextJob += quarantineJump
	cluster.NextBackend += BackendID(quarantineJump)
	cluster.Quarantined, cluster.QuarantinedAt, cluster.QuarantineCause = true, c.At, c.Cause
	cluster.ReopenedAt, cluster.ReopenedBy, cluster.ReopenNote = 0, "", ""
	change := Change{Cluster: &cluster, Members: members}
	for _, id := range v.OpenJobs() {
		r := v.Job(id)
		if r == nil || r.State.Terminal() {
			continue
		}
		// A job that is PENDING here may have been sent in what was lost.
		change.Jobs = append(change.Jobs, transition(r, p, c.Header, EventQuarantined, firstLine(c.Cause), func(r *Record) {
			r.State = StateUnknown
			r.QuarantinedAt = c.At
			r.Result = &Result{Code: CodeNoTrustedResult, Reason: ReasonQuarantined, At: c.At,
				Message: "the cluster was restored or recovered while the job was not settled"}
		}))
	}
	now := v.Settings()
	if now.AdmissionEnabled {
		change.Settings = append(change.Settings, SettingChange{
			Name: settingGate, Old: "true", New: "false", At: c.At, Actor: c.Actor,
		})
	}
	if !now.DispatchPaused {
		change.Settings = append(change.Settings, SettingChange{
			Name: settingPaused, Old: "false", New: "true", At: c.At, Actor: c.Actor,
		})
	}
	change.Answer.Count = len(change.Jobs)
	return change, nil
}

// reopen ends a quarantine. Only an operator can know what it asks for: no master
// can see whether another one, of a time that was lost, still sends.
func reopen(v View, c Reopen) (Change, *Refusal) {
	cluster := v.Cluster()
	if !cluster.Quarantined {
		return Change{}, refuse(CodeWrongState, "the cluster was not reopened: it is not quarantined", "nothing needs to be done")
	}
	if refusal := checkNote("the note", c.Note); refusal != nil {
		return Change{}, refusal
	}
	window := FormatDuration(MaxSendWindow)
	if !c.MastersStopped {
		return Change{}, refuse(CodeInvalid, "the cluster was not reopened: it is not confirmed that every master of the older"+
			" incarnation is stopped", "stop them for good, wait "+window+", restart every backend, then confirm both")
	}
	if !c.BackendsRestarted {
		return Change{}, refuse(CodeInvalid, "the cluster was not reopened: it is not confirmed that every backend was restarted at least "+
			window+" after the last master of the older incarnation had stopped", "restart every backend, then confirm it")
	}
	if earliest := cluster.QuarantinedAt + Millis(MaxSendWindow.Milliseconds()); c.At < earliest {
		left := (time.Duration(earliest-c.At)*time.Millisecond + time.Second - 1).Truncate(time.Second)
		return Change{}, refuse(CodeTooEarly, "the cluster was not reopened: it was quarantined less than "+window+" ago, so that"+
			" a master of the older incarnation can have sent since", "wait "+FormatDuration(left)+", restart every backend, then confirm it")
	}
	cluster.Quarantined = false
	cluster.ReopenedAt, cluster.ReopenedBy, cluster.ReopenNote = c.At, c.Actor, c.Note
	return Change{Cluster: &cluster}, nil
}
