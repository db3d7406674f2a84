package oracle

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lancemaster/lancemaster/internal/client"
	"github.com/lancemaster/lancemaster/internal/fsm"
)

// run is a run in which all is well: three jobs wanted one fence. Job 1 had it and committed, job 2
// was refused meanwhile, job 3 had it afterwards and its outcome is UNKNOWN. Job 4 waits for a slot.
func run() (Facts, Final) {
	fence, other := Fence{"s", "s3://b/t", "i"}, Fence{"s", "s3://b/t", "k"}
	j1 := client.Job{
		ID: 1, RequestID: "r1", State: "COMMITTED", Revision: 4, Refresh: client.Refresh{State: "DONE"},
		Target:   client.Target{Store: "s", Locator: "s3://b/t", IndexKey: "i"},
		Intent:   client.Intent{Mutation: "CREATE"},
		Dispatch: &client.Dispatch{InvocationID: "x1", Revision: 1, ProcessEpoch: 9, Proof: "CHILD_REAPED"},
		Result:   &client.Result{Code: "NATIVE_OK"},
	}
	admitted1 := j1
	admitted1.State, admitted1.Revision, admitted1.Dispatch, admitted1.Result, admitted1.FenceHeld = "PENDING", 0, nil, nil, true
	admitted1.Refresh.State = "NOT_REQUIRED"
	j3 := j1
	j3.ID, j3.RequestID, j3.State, j3.Revision, j3.FenceHeld, j3.SlotHeld, j3.Open = 3, "r3", "UNKNOWN", 2, true, true, true
	j3.Refresh.State, j3.Result = "NOT_REQUIRED", &client.Result{Code: "NO_TRUSTED_RESULT"}
	j3.Dispatch = &client.Dispatch{InvocationID: "x3", Revision: 1, ProcessEpoch: 9, Proof: "NONE", SlotHeld: true}
	admitted3 := admitted1
	admitted3.ID, admitted3.RequestID = 3, "r3"
	j4 := admitted1
	j4.ID, j4.RequestID, j4.Target.IndexKey, j4.Open = 4, "r4", "k", true
	admit := func(id, index int64) client.Event {
		return client.Event{JobID: id, RaftIndex: index, RaftTerm: 2, Kind: "ADMITTED", ToState: "PENDING", ToRefresh: "NOT_REQUIRED"}
	}
	step := func(id, revision, index int64, from, to, refresh string) client.Event {
		return client.Event{JobID: id, Revision: revision, RaftIndex: index, RaftTerm: 2, FromState: from, ToState: to, ToRefresh: refresh}
	}
	facts := Facts{
		Submissions: []Submission{
			{Span: Span{10, 20}, RequestID: "r1", Fence: fence, Mutation: "CREATE", Job: &admitted1},
			{Span: Span{30, 40}, RequestID: "r2", Fence: fence, Mutation: "CREATE", Refused: "FENCE_HELD", Holder: 1},
			{Span: Span{50, 60}, RequestID: "r3", Fence: fence, Mutation: "CREATE", Job: &admitted3},
			{Span: Span{50, Never}, RequestID: "r4", Fence: other, Mutation: "CREATE"},
			{Span: Span{50, Never}, RequestID: "r5", Fence: other, Mutation: "CREATE"},
		},
		Sends:   []Send{{25, "b1", 1, 1, "x1", 9}, {65, "b2", 3, 1, "x3", 9}},
		Reports: []Report{{Span{35, 36}, 1, "NATIVE_OK", true, ""}},
		Observations: []Observation{
			{Span{10, 20}, 1, 0, "PENDING", true, fence},
			{Span{41, 45}, 1, 4, "COMMITTED", false, fence},
			{Span{70, 80}, 3, 2, "UNKNOWN", true, fence},
		},
	}
	return facts, Final{
		Began: 90, At: 100,
		Jobs: []client.Job{j4, j3, j1},
		Histories: map[int64]client.History{
			1: {Events: []client.Event{
				admit(1, 100), step(1, 1, 101, "PENDING", "RUNNING", "NOT_REQUIRED"), step(1, 2, 102, "RUNNING", "COMMITTED", "REQUIRED"),
				step(1, 3, 103, "COMMITTED", "COMMITTED", "RUNNING"), step(1, 4, 104, "COMMITTED", "COMMITTED", "DONE"),
			}},
			3: {Events: []client.Event{
				admit(3, 105), step(3, 1, 106, "PENDING", "RUNNING", "NOT_REQUIRED"), step(3, 2, 107, "RUNNING", "UNKNOWN", "NOT_REQUIRED"),
			}},
			4: {Events: []client.Event{admit(4, 108)}},
		},
		Reasons: map[int64][]string{4: {"NO_SLOT"}},
		Nodes:   []Node{{Name: "a", Applied: 110, Hash: "h"}, {Name: "b", Applied: 110, Hash: "h"}, {Name: "c", Applied: 109, Hash: "other"}},
	}
}

func TestSound(t *testing.T) {
	facts, final := run()
	facts.Taken = []Taken{{25, "b1", 9, 1}, {26, "b1", 9, 3}}
	facts.Gone = []Gone{{44, "b1", 9}}
	facts.Proofs = []Proof{{45, 1, "BE_PROCESS_EPOCH_GONE"}, {46, 3, "CHILD_REAPED"}}
	if faults := Check(facts, final); len(faults) != 0 {
		t.Errorf("a sound run has faults: %q", faults)
	}
}

// A job that was there before the recorder began had its fence all the while.
func TestSoundWithOlderJobs(t *testing.T) {
	facts, final := run()
	facts.Submissions = facts.Submissions[1:]
	if faults := Check(facts, final); len(faults) != 0 {
		t.Errorf("a sound run on older jobs has faults: %q", faults)
	}
	facts.Submissions[1].Span = Span{5, 8}
	if faults := Check(facts, final); len(faults) == 0 {
		t.Error("a name was given away while an older job had it, and no fault is found")
	}
}

// Each fault is found, and said.
func TestFaults(t *testing.T) {
	job := func(final *Final, id int64) *client.Job {
		for i := range final.Jobs {
			if final.Jobs[i].ID == id {
				return &final.Jobs[i]
			}
		}
		panic("no such job")
	}
	for name, c := range map[string]struct {
		breaks func(*Facts, *Final)
		says   string
	}{
		"sent twice":              {func(f *Facts, _ *Final) { f.Sends = append(f.Sends, Send{90, "b2", 1, 1, "x9", 9}) }, "job 1 was sent to b1 as x1 and to b2"},
		"one invocation, two":     {func(f *Facts, _ *Final) { f.Sends[1].Invocation = "x1" }, "invocation x1 was sent for job 1 and for job 3"},
		"sent, not there":         {func(f *Facts, _ *Final) { f.Sends[0].Job = 8 }, "job 8 was sent to b1 and is not there"},
		"sent, not journaled":     {func(_ *Facts, l *Final) { job(l, 1).Dispatch = nil }, "its record says that it was not"},
		"sent otherwise":          {func(f *Facts, _ *Final) { f.Sends[0].ProcessEpoch = 8 }, "epoch 8, and its record says x1, 1, 9"},
		"lost":                    {func(_ *Facts, l *Final) { l.Jobs = l.Jobs[:2] }, "request r1 was acknowledged as job 1, and no job has it"},
		"another job":             {func(_ *Facts, l *Final) { job(l, 1).RequestID = "r3"; job(l, 3).RequestID = "r1" }, "request r1 was acknowledged as job 1 and is job 3"},
		"two of one request":      {func(_ *Facts, l *Final) { job(l, 3).RequestID = "r1" }, "have the request id r1"},
		"refused and there":       {func(f *Facts, _ *Final) { f.Submissions[4].RequestID, f.Submissions[4].Refused = "r4", "QUOTA_TABLE" }, "refused with QUOTA_TABLE and became job 4"},
		"changed":                 {func(_ *Facts, l *Final) { job(l, 1).Intent.Column = "c" }, "job 1 was acknowledged as"},
		"not what was asked":      {func(f *Facts, _ *Final) { f.Submissions[0].Mutation = "DROP" }, "request r1 asked for DROP"},
		"listed twice":            {func(_ *Facts, l *Final) { l.Jobs = append(l.Jobs, *job(l, 1)) }, "job 1 is listed twice"},
		"no refresh":              {func(_ *Facts, l *Final) { job(l, 1).Refresh.State = "NOT_REQUIRED" }, "no refresh was owed"},
		"UNKNOWN let go":          {func(_ *Facts, l *Final) { job(l, 3).FenceHeld = false }, "its fence is free, and nobody released it"},
		"held too long":           {func(_ *Facts, l *Final) { job(l, 1).FenceHeld = true }, "the fence is held against the rule"},
		"slot":                    {func(_ *Facts, l *Final) { job(l, 3).Dispatch.Proof = "CHILD_REAPED" }, "the slot is held against its proof"},
		"still RUNNING":           {func(_ *Facts, l *Final) { job(l, 3).State = "RUNNING" }, "it is still RUNNING"},
		"PENDING without reason":  {func(_ *Facts, l *Final) { delete(l.Reasons, 4) }, "nothing says why"},
		"no history":              {func(_ *Facts, l *Final) { delete(l.Histories, 4) }, "job 4 has no history"},
		"history with a gap":      {func(_ *Facts, l *Final) { l.Histories[1].Events[2].Revision = 7 }, "does not follow"},
		"history back in the log": {func(_ *Facts, l *Final) { l.Histories[1].Events[2].RaftIndex = 100 }, "does not follow"},
		"RUNNING twice": {func(_ *Facts, l *Final) {
			e := l.Histories[1].Events
			e[3].ToState, e[4].FromState = "PENDING", "PENDING"
			e[4].ToState = "RUNNING"
		}, "entered RUNNING 2 times"},
		"a forbidden edge":        {func(_ *Facts, l *Final) { l.Histories[1].Events[1].ToState = "COMMITTED" }, "job 1 went from PENDING to COMMITTED"},
		"history ends early":      {func(_ *Facts, l *Final) { job(l, 3).Revision = 5 }, "and its history ends with"},
		"two hold one fence":      {func(_ *Facts, l *Final) { l.Histories[3].Events[0].RaftIndex = 103 }, "job 3 took the fence"},
		"let go by the record":    {func(_ *Facts, l *Final) { l.Histories[1].Events[4].ToRefresh = "FAILED" }, "by its history it was released at entry 0"},
		"a report without effect": {func(_ *Facts, l *Final) { job(l, 1).Result.Code = "NO_TRUSTED_RESULT" }, "was answered OK without a word"},
		"a read that went back":   {func(f *Facts, _ *Final) { f.Observations[2].Job, f.Observations[2].Revision = 1, 3 }, "and after that as"},
		"a lost revision":         {func(f *Facts, _ *Final) { f.Observations[1].Revision = 9 }, "a client was shown job 1 at revision 9"},
		"admitted too early, for clients": {func(f *Facts, _ *Final) {
			f.Submissions[2].Span, f.Submissions[1].Span = Span{21, 22}, Span{23, 24}
		}, "has no order in which it is true"},
		"refused by a free name": {func(f *Facts, _ *Final) { f.Submissions[1].Span = Span{46, 47} }, "has no order in which it is true"},
		"never enqueued, and taken": {func(f *Facts, _ *Final) {
			f.Taken = []Taken{{25, "b1", 9, 1}}
			f.Proofs = []Proof{{45, 1, "NOT_ENQUEUED"}}
		}, "as its record proves, and process 9 of b1 took it"},
		"gone, and there": {func(f *Facts, _ *Final) {
			f.Taken = []Taken{{25, "b1", 9, 1}}
			f.Proofs, f.Gone = []Proof{{45, 1, "BE_PROCESS_EPOCH_GONE"}}, []Gone{{46, "b1", 9}, {30, "b1", 8}}
		}, "process 9 of b1, which took it, was there"},
		"states differ":    {func(_ *Facts, l *Final) { l.Nodes[1].Hash = "g" }, "a and b have both applied entry 110"},
		"an unsound state": {func(_ *Facts, l *Final) { l.Nodes[2].Fault = "a posting is missing" }, "the state of c: a posting is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			facts, final := run()
			c.breaks(&facts, &final)
			faults := Check(facts, final)
			if !strings.Contains(strings.Join(faults, "\n"), c.says) {
				t.Errorf("the faults are %q; want one with %q", faults, c.says)
			}
		})
	}
}

// Many faults do not flood a log.
func TestBound(t *testing.T) {
	facts, final := run()
	for range 1000 {
		facts.Sends = append(facts.Sends, facts.Sends[0])
	}
	if faults := Check(facts, final); len(faults) != maxFaults+1 {
		t.Errorf("%d faults are told, want %d", len(faults), maxFaults+1)
	}
}

// A recorder keeps what matters: each observation of a held fence, and the first without.
func TestRecorder(t *testing.T) {
	now := Moment(0)
	r := NewRecorder(func() Moment { now++; return now })
	j := &client.Job{ID: 1, State: "PENDING", FenceHeld: true}
	r.Submission(Submission{Span: Span{0, r.Now()}, Job: j})
	r.Observed(j, Span{r.Now(), r.Now()})
	done := *j
	done.FenceHeld, done.Revision = false, 3
	r.Observed(&done, Span{r.Now(), r.Now()})
	r.Observed(&done, Span{r.Now(), r.Now()})
	r.Sent(Send{Job: 1})
	r.Sent(Send{Job: 1})
	r.Reported(Report{Job: 1})
	r.Took(Taken{Job: 1})
	r.Ended(Gone{Process: 1})
	done.Dispatch = &client.Dispatch{Proof: "CHILD_REAPED"}
	r.Observed(&done, Span{r.Now(), r.Now()})
	r.Observed(&done, Span{r.Now(), r.Now()})
	f := r.Facts()
	if len(f.Taken) != 1 || f.Taken[0].At == 0 || len(f.Gone) != 1 || f.Gone[0].At == 0 || len(f.Proofs) != 1 || f.Proofs[0].Proof != "CHILD_REAPED" {
		t.Errorf("the facts about processes are %+v, %+v, %+v", f.Taken, f.Gone, f.Proofs)
	}
	if len(f.Observations) != 3 || len(f.Submissions) != 1 || len(f.Sends) != 2 || f.Sends[1].At == 0 || len(f.Reports) != 1 || r.SentJobs()[1] != 2 {
		t.Errorf("the facts are %+v", f)
	}
	if began := NewRecorder(nil); began.Now() < 0 || began.Now() > Moment(time.Minute) {
		t.Error("the recorder's own clock does not begin with it")
	}
}

func TestOpenState(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	if n, err := OpenState("a", path); err == nil {
		t.Errorf("a state that is not there is %+v", n)
	}
	m, err := fsm.Open(fsm.Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	want, err := StateOf("a", m)
	if err != nil || want.Fault != "" || want.Hash == "" {
		t.Fatalf("an empty state is %+v, %v", want, err)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := OpenState("a", path); err != nil || got != want {
		t.Errorf("the state is %+v, %v; want %+v", got, err, want)
	}
}
