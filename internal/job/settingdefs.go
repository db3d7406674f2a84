package job

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// SettingType says how a setting's value is written.
type SettingType string

// The types of settings.
const (
	SettingBool     SettingType = "bool"     // true or false
	SettingInt      SettingType = "integer"  // a positive number
	SettingDuration SettingType = "duration" // like 10s, 1h or 1h30m; whole milliseconds
	SettingChoice   SettingType = "choice"   // one of a few words, see Form
)

// SettingDef describes a setting: how it is written and what it does.
type SettingDef struct {
	Name    string
	Type    SettingType
	Default string // in canonical spelling
	Help    string
	Level   int32 // the feature level that brings it

	choices  []string // SettingChoice
	min, max int64    // SettingInt; SettingDuration in milliseconds
	// get and assign reach the setting in Settings: as "true", a number or a word.
	get    func(Settings) string
	assign func(*Settings, string)
}

// The settings that transitions themselves change.
const (
	settingGate   = "admission.enabled"
	settingPaused = "dispatch.paused"
)

const (
	maxQuota = 100_000
	day      = 24 * time.Hour
	// minInterval keeps a mistyped interval from making the master spin.
	minInterval = 100 * time.Millisecond
)

// settingDefs are all settings this build knows, sorted by name.
var settingDefs = []SettingDef{
	flag(settingGate, "whether jobs are admitted; guards admission alone",
		func(s *Settings) *bool { return &s.AdmissionEnabled }),
	number("admission.max_num_partitions", "4096", 1, 1<<20, "upper bound on num_partitions of an IVF_PQ index",
		func(s *Settings) *int32 { return &s.MaxNumPartitions }),
	number("admission.max_num_sub_vectors", "256", 1, 1<<16, "upper bound on num_sub_vectors of an IVF_PQ index",
		func(s *Settings) *int32 { return &s.MaxNumSubVectors }),
	number("admission.max_unresolved_global", "256", 1, maxQuota, "unresolved jobs in the cluster",
		func(s *Settings) *int { return &s.MaxUnresolvedGlobal }),
	number("admission.max_unresolved_per_catalog", "64", 1, maxQuota, "unresolved jobs in one catalog",
		func(s *Settings) *int { return &s.MaxUnresolvedPerCatalog }),
	number("admission.max_unresolved_per_table", "8", 1, maxQuota, "unresolved jobs on one dataset",
		func(s *Settings) *int { return &s.MaxUnresolvedPerTable }),
	choice("admission.nullable_columns", "reject", [2]string{"reject", "allow"},
		"whether an index on a nullable column is admitted: reject or allow",
		func(s *Settings) *bool { return &s.NullableColumnsAllowed }),
	period("backend.heartbeat_interval", "5s", 10*time.Minute, "time between two heartbeats to a backend",
		func(s *Settings) *time.Duration { return &s.HeartbeatInterval }),
	period("backend.rpc_timeout", "1m", 10*time.Minute, "bound on one call to a backend",
		func(s *Settings) *time.Duration { return &s.RPCTimeout }),
	period("dispatch.execute_deadline", "1h", 30*day, "time a job may run when it asks for no other",
		func(s *Settings) *time.Duration { return &s.ExecuteDeadline }),
	period("dispatch.interval", "10s", time.Hour, "rounds of the dispatcher run at least this often",
		func(s *Settings) *time.Duration { return &s.DispatchInterval }),
	period("dispatch.max_execute_deadline", "24h", 30*day, "the longest time a job may ask for",
		func(s *Settings) *time.Duration { return &s.MaxExecuteDeadline }),
	number("dispatch.max_inflight_per_backend", "2", 1, 1000, "slots of one backend",
		func(s *Settings) *int { return &s.MaxInflightPerBackend }),
	number("dispatch.max_per_round", "16", 1, 10_000, "jobs sent in one dispatch.interval",
		func(s *Settings) *int { return &s.MaxPerRound }),
	flag(settingPaused, "whether the dispatch of PENDING jobs is paused; stops nothing else",
		func(s *Settings) *bool { return &s.DispatchPaused }),
	period("dispatch.send_window", "2s", MaxSendWindow,
		"time between journaling a dispatch and sending it, after which it is not sent",
		func(s *Settings) *time.Duration { return &s.SendWindow }),
	choice("leader_change.running", "keep", [2]string{"keep", "unknown"},
		"what becomes of RUNNING jobs when the leader changes: keep, or unknown",
		func(s *Settings) *bool { return &s.LeaderChangeUnknown }),
	flag("local_datasets.allowed", "whether file: datasets are served; needs one master and one backend",
		func(s *Settings) *bool { return &s.LocalDatasetsAllowed }),
	period("refresh.retry_interval", "5m", day, "time between a failed refresh and the next attempt",
		func(s *Settings) *time.Duration { return &s.RefreshRetryInterval }),
	flag("reports.unauthenticated_termination", "whether termination reports without a secret are believed",
		func(s *Settings) *bool { return &s.UnauthenticatedTermination }),
	period("retention.interval", "1h", 7*day, "time between two removals of old jobs",
		func(s *Settings) *time.Duration { return &s.RetentionInterval }),
	period("retention.keep", "168h", 3650*day, "time a job is kept after it was closed",
		func(s *Settings) *time.Duration { return &s.RetentionKeep }),
}

// flag is a setting that is false until somebody says otherwise.
func flag(name, help string, field func(*Settings) *bool) SettingDef {
	return SettingDef{
		Name: name, Type: SettingBool, Default: "false", Help: help, Level: 1,
		get:    func(s Settings) string { return strconv.FormatBool(*field(&s)) },
		assign: func(s *Settings, v string) { *field(s) = v == "true" },
	}
}

// choice is a setting of two words; the second makes the field true.
func choice(name, def string, words [2]string, help string, field func(*Settings) *bool) SettingDef {
	return SettingDef{
		Name: name, Type: SettingChoice, Default: def, Help: help, Level: 1, choices: words[:],
		get: func(s Settings) string {
			if *field(&s) {
				return words[1]
			}
			return words[0]
		},
		assign: func(s *Settings, v string) { *field(s) = v == words[1] },
	}
}

func number[T int | int32](name, def string, lowest, highest int64, help string, field func(*Settings) *T) SettingDef {
	return SettingDef{
		Name: name, Type: SettingInt, Default: def, Help: help, Level: 1, min: lowest, max: highest,
		get: func(s Settings) string { return strconv.FormatInt(int64(*field(&s)), 10) },
		assign: func(s *Settings, v string) {
			n, _ := strconv.ParseInt(v, 10, 32) // canonical, so in bounds
			*field(s) = T(n)
		},
	}
}

func period(name, def string, highest time.Duration, help string, field func(*Settings) *time.Duration) SettingDef {
	return SettingDef{
		Name: name, Type: SettingDuration, Default: def, Help: help, Level: 1,
		min: minInterval.Milliseconds(), max: highest.Milliseconds(),
		get:    func(s Settings) string { return FormatDuration(*field(&s)) },
		assign: func(s *Settings, v string) { *field(s), _ = time.ParseDuration(v) }, // canonical, so it parses
	}
}

// Form says how a value is written: the type's name, or the words of a choice as in
// keep|unknown.
func (d SettingDef) Form() string {
	if d.Type == SettingChoice {
		return strings.Join(d.choices, "|")
	}
	return string(d.Type)
}

// check returns the canonical spelling of a value.
func (d SettingDef) check(value string) (string, *Refusal) {
	value = strings.TrimSpace(value)
	switch d.Type {
	case SettingBool:
		if value == "true" || value == "false" {
			return value, nil
		}
		return "", d.refuse("it must be true or false")
	case SettingInt:
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil || n < d.min || n > d.max {
			return "", d.refuse(fmt.Sprintf("it must be a whole number, at least %d and at most %d", d.min, d.max))
		}
		return strconv.FormatInt(n, 10), nil
	case SettingDuration:
		p, err := time.ParseDuration(value)
		low, high := time.Duration(d.min)*time.Millisecond, time.Duration(d.max)*time.Millisecond
		if err != nil || p < low || p > high || p%time.Millisecond != 0 {
			return "", d.refuse(fmt.Sprintf("it must be a duration like 10s or 1h30m in whole milliseconds, at least %s and at most %s",
				FormatDuration(low), FormatDuration(high)))
		}
		return FormatDuration(p), nil
	default:
		if slices.Contains(d.choices, value) {
			return value, nil
		}
		return "", d.refuse("it must be one of " + strings.Join(d.choices, ", "))
	}
}

func (d SettingDef) refuse(why string) *Refusal {
	return refuse(CodeInvalid, fmt.Sprintf("the value given for setting %s is refused: %s", d.Name, why),
		fmt.Sprintf("correct it and ask again; the default is %s", d.Default))
}

// FormatDuration spells a duration as settings do: 10s, 1h30m, 168h, 250ms.
func FormatDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
