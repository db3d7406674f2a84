package stub

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/lancemaster/lancemaster/gen-go/report"
	"github.com/lancemaster/lancemaster/gen-go/shared"
	"github.com/lancemaster/lancemaster/internal/await"
)

func TestRules(t *testing.T) {
	said := func(o Outcome) Outcome {
		o.Message = Simulated + o.Message
		return o
	}
	tests := []struct {
		text      string
		pattern   string
		behaviour Behaviour
	}{
		{"status=TOO_MANY_TASKS", "*", Always{Status: 16, Messages: []string{Simulated}}},
		{"status=OK", "*", Always{}},
		{"status=0", "*", Always{}},
		{"a*:status=-7", "a*", Always{Status: -7, Messages: []string{Simulated}}},
		{"hang", "*", Always{Conduct: Hang}},
		{"a:b=c:close", "a:b=c", Always{Conduct: Close}},
		{"*:garbage", "*", Always{Conduct: Garbage}},
		{"report=NATIVE_OK", "*", Report{Outcome: said(Outcome{Code: 5})}},
		{"report=99,advanced", "*", Report{Outcome: said(Outcome{Code: 99, MetadataAdvanced: true})}},
		{
			"x?:report=NATIVE_IO,after=1500ms,late,proof=CHILD_REAPED,termination=NEVER_LAUNCHED,secret=wrong,times=3,message=a: b, c=d", "x?",
			Report{
				Outcome: said(Outcome{Code: 11, Proof: 2, Message: "; a: b, c=d"}), After: 1500 * time.Millisecond, Late: true, Times: 3,
				Secret: WrongSecret, Termination: 3,
			},
		},
		{"report=5,proof=9,secret=none,times=100", "*", Report{Outcome: said(Outcome{Code: 5, Proof: 9}), Secret: NoSecret, Times: 100}},
		{"report=5,secret=right", "*", Report{Outcome: said(Outcome{Code: 5})}},
	}
	for _, tt := range tests {
		got, err := parseRules([]string{tt.text})
		if want := (rules{{pattern: tt.pattern, behaviour: tt.behaviour}}); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q is read as %+v, %v; want %+v", tt.text, got, err, want)
		}
	}
}

func TestRulesRefused(t *testing.T) {
	for _, tt := range []struct {
		texts []string
		want  string
	}{
		{[]string{""}, "is no behaviour"},
		{[]string{"report"}, "neither a name of TLanceIndexResultCode nor a number"},
		{[]string{"report=native_ok"}, "neither a name"},
		{[]string{"report=4294967296"}, "nor a number of 32 bits"},
		{[]string{"status="}, "neither a name of TStatusCode"},
		{[]string{"restart"}, "is no behaviour"},
		{[]string{":hang"}, "the pattern before the colon is empty"},
		{[]string{"[:hang"}, "cannot be read"},
		{[]string{"hang=1s"}, "hang takes nothing"},
		{[]string{"garbage,times=2"}, "garbage takes nothing"},
		{[]string{"close,secret=none"}, "close takes nothing"},
		{[]string{"status=OK,after=1s"}, "status takes nothing more"},
		{[]string{"status=ABORTED,proof=CHILD_REAPED"}, "status takes nothing more"},
		{[]string{"report=NATIVE_OK,"}, "write late and advanced alone"},
		{[]string{"report=NATIVE_OK,late=yes"}, "write late and advanced alone"},
		{[]string{"report=NATIVE_OK,after"}, "write late and advanced alone"},
		{[]string{"report=NATIVE_OK,later=1s"}, "is no word of a report"},
		{[]string{"report=NATIVE_OK,after=soon"}, "invalid duration"},
		{[]string{"report=NATIVE_OK,after=-1s"}, "is negative"},
		{[]string{"report=NATIVE_OK,after=1s,after=2s"}, "after is given twice"},
		{[]string{"report=NATIVE_OK,times=0"}, "not a number from 1 to 100"},
		{[]string{"report=NATIVE_OK,times=101"}, "not a number from 1 to 100"},
		{[]string{"report=NATIVE_OK,secret=maybe"}, "none of right, wrong and none"},
		{[]string{"report=NATIVE_OK,proof=REAPED"}, "neither a name of TLanceIndexTerminationProof"},
		{[]string{"report=NATIVE_OK,termination=0"}, "leave the proof out"},
		{[]string{"report=NATIVE_OK,message="}, "is empty"},
		{[]string{"hang", "a:close"}, "never applies"},
		{[]string{"*:hang", "close"}, "never applies"},
		{[]string{"a:hang", "b:hang", "a:close"}, "never applies"},
	} {
		if got, err := parseRules(tt.texts); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q is read as %+v, %v; want a refusal with %q", tt.texts, got, err, tt.want)
		}
	}
	if got, err := ParseRules([]string{"restart"}); err == nil || got != nil {
		t.Errorf("it is read as %v", got)
	}
}

func TestPatterns(t *testing.T) {
	for _, tt := range []struct {
		pattern, name string
		want          bool
	}{
		{"*", "any/thing", true}, {"*", "", true}, {"lost_*", "lost_1", true}, {"lost_*", "a_lost_1", false},
		{"a/?", "a/b", true}, {"a?b", "a/b", true}, {"Idx", "idx", false},
	} {
		if got := matches(tt.pattern, tt.name); got != tt.want {
			t.Errorf("%q matches %q: %t", tt.pattern, tt.name, got)
		}
	}
}

// By the name of a job's index the first rule that matches decides, and a job that none is for is
// refused.
func TestRulesDecide(t *testing.T) {
	behaviour, err := ParseRules([]string{"done_*:report=NATIVE_OK,proof=CHILD_REAPED", "busy_*:status=TOO_MANY_TASKS", "d*:status=ABORTED"})
	if err != nil {
		t.Fatal(err)
	}
	m := &reportSink{}
	s := start(t, behaviour, nil)
	wantBeat(t, s, masterInfo(m.serve(t)), shared.TStatusCode_OK)
	for name, want := range map[string]shared.TStatusCode{
		"done_1": shared.TStatusCode_OK, "busy_1": shared.TStatusCode_TOO_MANY_TASKS, "d": shared.TStatusCode_ABORTED,
		"Done_1": shared.TStatusCode_NOT_IMPLEMENTED_ERROR,
	} {
		d := dispatch()
		d.IndexName, d.InvocationID = name, "inv-"+name
		got := wantStatus(t, s, d, want)
		if name == "busy_1" && (len(got.ErrorMsgs) != 1 || got.ErrorMsgs[0] != Simulated) {
			t.Errorf("it does not say that it simulates: %q", got.ErrorMsgs)
		}
	}
	reported := func() []*report.TLanceIndexJobReport {
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.results
	}
	await.Until(t, bound, "a report", func() bool { return len(reported()) > 0 })
	got := reported()
	if r := got[0]; len(got) != 1 || r.ResultCode != 5 || r.GetTerminationProof() != 2 || r.GetSanitizedMessage() != Simulated || r.InvocationID != "inv-done_1" {
		t.Errorf("reported %v", got)
	}
}
