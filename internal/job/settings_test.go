package job_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lancemaster/lancemaster/internal/job"
)

// TestSettingDefaults is the contract's list.
func TestSettingDefaults(t *testing.T) {
	want := []job.SettingValue{
		{Name: "admission.enabled", Value: "false"},
		{Name: "admission.max_num_partitions", Value: "4096"},
		{Name: "admission.max_num_sub_vectors", Value: "256"},
		{Name: "admission.max_unresolved_global", Value: "256"},
		{Name: "admission.max_unresolved_per_catalog", Value: "64"},
		{Name: "admission.max_unresolved_per_table", Value: "8"},
		{Name: "admission.nullable_columns", Value: "reject"},
		{Name: "backend.heartbeat_interval", Value: "5s"},
		{Name: "backend.rpc_timeout", Value: "1m"},
		{Name: "dispatch.execute_deadline", Value: "1h"},
		{Name: "dispatch.interval", Value: "10s"},
		{Name: "dispatch.max_execute_deadline", Value: "24h"},
		{Name: "dispatch.max_inflight_per_backend", Value: "2"},
		{Name: "dispatch.max_per_round", Value: "16"},
		{Name: "dispatch.paused", Value: "false"},
		{Name: "dispatch.send_window", Value: "2s"},
		{Name: "leader_change.running", Value: "keep"},
		{Name: "local_datasets.allowed", Value: "false"},
		{Name: "refresh.retry_interval", Value: "5m"},
		{Name: "reports.unauthenticated_termination", Value: "false"},
		{Name: "retention.interval", Value: "1h"},
		{Name: "retention.keep", Value: "168h"},
	}
	if got := job.DefaultSettings(); !slices.Equal(got, want) {
		t.Errorf("defaults are\n%v, want\n%v", got, want)
	}
	parsed, refusal := job.NewSettings(nil)
	if refusal != nil {
		t.Fatal(refusal)
	}
	if got := (job.Settings{
		MaxUnresolvedPerTable: 8, MaxUnresolvedPerCatalog: 64, MaxUnresolvedGlobal: 256, MaxNumPartitions: 4096,
		MaxNumSubVectors: 256, DispatchInterval: 10 * time.Second, ExecuteDeadline: time.Hour, MaxExecuteDeadline: 24 * time.Hour,
		MaxPerRound: 16, MaxInflightPerBackend: 2, SendWindow: 2 * time.Second, RPCTimeout: time.Minute,
		HeartbeatInterval: 5 * time.Second, RefreshRetryInterval: 300 * time.Second, RetentionKeep: 168 * time.Hour,
		RetentionInterval: time.Hour,
	}); parsed != got {
		t.Errorf("parsed %+v, want %+v", parsed, got)
	}
}

// TestSettingDefs: every field of Settings belongs to exactly one setting, every
// default is canonical, and every setting says what it is.
func TestSettingDefs(t *testing.T) {
	defs := job.SettingDefs()
	if !slices.IsSortedFunc(defs, func(a, b job.SettingDef) int { return strings.Compare(a.Name, b.Name) }) {
		t.Error("the settings are not sorted by name")
	}
	if fields := reflect.TypeFor[job.Settings]().NumField(); fields != len(defs) {
		t.Errorf("%d settings for %d fields", len(defs), fields)
	}
	base, _ := job.NewSettings(nil)
	moved := map[string]string{}
	for _, d := range defs {
		if d.Help == "" || d.Level != 1 {
			t.Errorf("%s: help %q, level %d", d.Name, d.Help, d.Level)
		}
		if got, refusal := job.CheckSetting(d.Name, d.Default); refusal != nil || got != d.Default {
			t.Errorf("%s: the default %s becomes %q, %v", d.Name, d.Default, got, refusal)
		}
		other := otherValue(t, d)
		s, refusal := job.NewSettings([]job.SettingValue{{Name: d.Name, Value: other}})
		if refusal != nil {
			t.Errorf("%s=%s: %v", d.Name, other, refusal)
			continue
		}
		for _, v := range s.Values() {
			if want := defaultOf(v.Name); v.Name == d.Name && v.Value != other || v.Name != d.Name && v.Value != want {
				t.Errorf("after %s=%s, %s is %s", d.Name, other, v.Name, v.Value)
			}
		}
		field := changedField(t, base, s)
		if by, taken := moved[field]; taken {
			t.Errorf("%s and %s both set %s", by, d.Name, field)
		}
		moved[field] = d.Name
	}
}

func defaultOf(name string) string {
	for _, v := range job.DefaultSettings() {
		if v.Name == name {
			return v.Value
		}
	}
	return ""
}

// otherValue is a valid value that is not the default.
func otherValue(t *testing.T, d job.SettingDef) string {
	for _, v := range []string{"true", "3", "7s", "allow", "unknown"} {
		if canonical, refusal := job.CheckSetting(d.Name, v); refusal == nil && canonical != d.Default {
			return canonical
		}
	}
	t.Fatalf("no other value for %s", d.Name)
	return ""
}

func changedField(t *testing.T, a, b job.Settings) string {
	x, y := reflect.ValueOf(a), reflect.ValueOf(b)
	changed := []string{}
	for i := range x.NumField() {
		if !x.Field(i).Equal(y.Field(i)) {
			changed = append(changed, x.Type().Field(i).Name)
		}
	}
	if len(changed) != 1 {
		t.Fatalf("changed fields: %v", changed)
	}
	return changed[0]
}

func TestCheckSetting(t *testing.T) {
	for _, tt := range []struct{ name, value, want string }{
		{"dispatch.interval", "60s", "1m"},
		{"dispatch.interval", "1h0m0s", "1h"},
		{"dispatch.interval", " 1500ms ", "1.5s"},
		{"dispatch.interval", "100ms", "100ms"},
		{"retention.keep", "90m", "1h30m"},
		{"retention.keep", "3600s", "1h"},
		{"retention.keep", "1h0m1s", "1h0m1s"},
		{"retention.keep", "87600h", "87600h"},
		{"dispatch.max_per_round", "007", "7"},
		{"dispatch.paused", "true", "true"},
		{"leader_change.running", "unknown", "unknown"},
		{"dispatch.send_window", "10s", "10s"},
	} {
		got, refusal := job.CheckSetting(tt.name, tt.value)
		if refusal != nil || got != tt.want {
			t.Errorf("%s=%s: %q, %v; want %q", tt.name, tt.value, got, refusal, tt.want)
		}
	}
	for _, tt := range []struct{ name, value, want string }{
		{"dispatch.interval", "", "must be a duration"},
		{"dispatch.interval", "0s", "at least 100ms"},
		{"dispatch.interval", "-1s", "at least 100ms"},
		{"dispatch.interval", "99ms", "at least 100ms"},
		{"dispatch.interval", "100.5ms", "whole milliseconds"},
		{"dispatch.interval", "61m", "at most 1h"},
		{"dispatch.send_window", "10001ms", "at most 10s"},
		{"admission.max_unresolved_per_table", "0", "at least 1"},
		{"admission.max_unresolved_per_table", "-1", "at least 1"},
		{"admission.max_unresolved_per_table", "1.5", "whole number"},
		{"admission.max_unresolved_per_table", "99999999999999999999", "whole number"},
		{"admission.max_num_sub_vectors", "65537", "at most 65536"},
		{"admission.enabled", "yes", "true or false"},
		{"admission.enabled", "TRUE", "true or false"},
		{"admission.nullable_columns", "true", "reject, allow"},
		{"no.such", "1", `no setting "no.such"`},
		{"", "1", `no setting ""`},
		{strings.Repeat("x", 5000), "1", "x..."},
	} {
		_, refusal := job.CheckSetting(tt.name, tt.value)
		if refusal == nil || !strings.Contains(refusal.Error(), tt.want) || len(refusal.Error()) > 400 {
			t.Errorf("%s=%s: %v, want %q", tt.name, tt.value, refusal, tt.want)
		}
	}
}

func TestLoadSetting(t *testing.T) {
	l := job.NewLive()
	if err := l.LoadSetting(job.SettingValue{Name: "dispatch.paused", Value: "true"}); err != nil || !l.Settings().DispatchPaused {
		t.Errorf("%v, paused %v", err, l.Settings().DispatchPaused)
	}
	for _, v := range []job.SettingValue{{Name: "no.such", Value: "1"}, {Name: "dispatch.paused", Value: "perhaps"}} {
		if err := l.LoadSetting(v); err == nil {
			t.Errorf("%v is loaded", v)
		}
	}
}
