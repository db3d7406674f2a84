package rpc

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/lancemaster/lancemaster/gen-go/admin"
	"github.com/lancemaster/lancemaster/gen-go/report"
	"github.com/lancemaster/lancemaster/internal/job"
)

// link carries messages from one master to another and can be broken.
type link struct {
	mu       sync.Mutex
	to       *Forwarded
	messages [][]byte
	as       []Principal
	// before and after may fail a message: before it was served, and after.
	before, after func(n int) error
	began         chan struct{} // if set, told of each message
}

func (l *link) Forward(ctx context.Context, service string, as Principal, message []byte) ([]byte, error) {
	l.mu.Lock()
	l.messages, l.as = append(l.messages, bytes.Clone(message)), append(l.as, as)
	n := len(l.messages)
	l.mu.Unlock()
	if l.began != nil {
		l.began <- struct{}{}
	}
	if l.before != nil {
		if err := l.before(n); err != nil {
			return nil, err
		}
	}
	far, cancel := context.WithCancel(context.Background()) // nothing but the end of a context crosses the wire
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	reply, err := l.to.Serve(far, service, as, message)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err == nil && l.after != nil:
		err = l.after(n)
	}
	return reply, err
}

func (l *link) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.messages)
}

// pair is a follower with a link to its leader.
type pair struct {
	leader, follower *bench
	*link
}

func newPair(t testing.TB) *pair {
	t.Helper()
	p := &pair{leader: newBench(t), follower: newBench(t)}
	p.link = &link{to: NewForwarded(p.leader.reports, p.leader.admin)}
	p.follower.status.NodeID = "n2"
	p.follower.leader = func(context.Context) (Leader, error) { return Leader{NodeID: "n1"}, nil }
	p.follower.barrier = func(context.Context) error { return ErrNotLeader }
	p.follower.fail = func(job.Command) error { return errors.New("a follower proposed") }
	p.follower.admin.cfg.Forward, p.follower.reports.cfg.Forward = p.link, p.link
	return p
}

func unsent(int) error { return &ForwardError{Err: errors.New("connection refused")} }
func lost(int) error   { return &ForwardError{Sent: true, Err: errors.New("connection reset")} }

func getJob(ctx context.Context, b *bench, id int64) (*admin.TJob, error) {
	return b.admin.GetJob(ctx, &admin.TGetJobRequest{Ctx: caller(), JobID: &id})
}

func cancelJob(ctx context.Context, b *bench, id int64) (*admin.TJob, error) {
	return b.admin.CancelJob(ctx, &admin.TJobVerbRequest{Ctx: caller(), JobID: &id, Note: ptr("no need")})
}

func caller() *admin.TRequestContext {
	return &admin.TRequestContext{ClientName: ptr("joe"), Token: ptr("lm_a-token-nobody-else-may-see")}
}

// A follower's calls are carried out by the leader, in the name of whoever made them; the caller's
// token stays behind.
func TestCallsAreForwarded(t *testing.T) {
	p := newPair(t)
	r := p.leader.admit(t, "a", job.MutationCreate)
	got, err := getJob(t.Context(), p.follower, int64(r.ID))
	if err != nil || got.Target.IndexName != "a" {
		t.Fatalf("read %v, %v", got, err)
	}
	p.follower.admin.cfg.Authenticator = knows{"lm_a-token-nobody-else-may-see": {Name: "ops", Role: job.RoleOperate, Verified: true}}
	got, err = cancelJob(t.Context(), p.follower, int64(r.ID))
	if err != nil || got.State != admin.TJobState_NOT_COMMITTED {
		t.Fatalf("cancelled: %v, %v", got, err)
	}
	events, _, err := p.leader.History(r.ID)
	if err != nil || events[len(events)-1].Actor != "ops" {
		t.Errorf("the leader's history names %v, %v", events, err)
	}
	if p.count() != 2 {
		t.Errorf("%d messages for two calls", p.count())
	}
	for _, m := range p.messages {
		if bytes.Contains(m, []byte("nobody-else")) {
			t.Error("the caller's token went along")
		}
	}
	if n := testutil.ToFloat64(p.follower.reports.cfg.Metrics.forwards.WithLabelValues(serviceAdmin, forwardAnswered)); n != 2 {
		t.Errorf("%v counted", n)
	}
	if strings.Contains(p.leader.log.String()+p.follower.log.String(), "nobody-else") {
		t.Error("the token was logged")
	}
}

// A follower that has not heard of a revocation yet lets the caller in, and the leader does not: neither for a
// change nor for a read, neither forwarded nor made at the leader itself.
func TestTheLeaderKnowsOfRevocations(t *testing.T) {
	p := newPair(t)
	r := p.leader.admit(t, "a", job.MutationCreate)
	behind := knows{"lm_a-token-nobody-else-may-see": {Name: "ops", Role: job.RoleOperate, Verified: true, Token: job.Hash{1}}}
	p.follower.admin.cfg.Authenticator = behind
	p.leader.admin.cfg.Authenticator = forgot{behind, job.Hash{2}}
	if _, err := getJob(t.Context(), p.follower, int64(r.ID)); err != nil {
		t.Fatalf("with a token that was not revoked: %v", err)
	}
	p.leader.admin.cfg.Authenticator = forgot{behind, job.Hash{1}}
	for name, b := range map[string]*bench{"through the follower": p.follower, "at the leader": p.leader} {
		_, err := cancelJob(t.Context(), b, int64(r.ID))
		wantCode(t, err, admin.TAdminErrorCode_UNAUTHENTICATED)
		if _, err := getJob(t.Context(), b, int64(r.ID)); err == nil {
			t.Errorf("%s: a revoked token reads", name)
		}
	}
	if got, err := p.leader.Job(r.ID); err != nil || got.State != job.StatePending {
		t.Errorf("the job is %+v, %v", got, err)
	}
}

// What the leader refuses is told as the leader says it.
func TestTheLeadersRefusalsComeBack(t *testing.T) {
	p := newPair(t)
	r := p.leader.running(t, "a")
	_, err := cancelJob(t.Context(), p.follower, int64(r.ID))
	e := refusal(t, err, admin.TAdminErrorCode_WRONG_STATE)
	if e.Present == nil || e.Present.JobID != int64(r.ID) || p.count() != 1 {
		t.Errorf("refused with %v after %d messages", e, p.count())
	}
	_, err = getJob(t.Context(), p.follower, 99)
	wantCode(t, err, admin.TAdminErrorCode_NOT_FOUND)
}

// A call whose answer was lost is made once, whatever it is. Of a change nobody knows what became.
func TestALostAnswer(t *testing.T) {
	for name, broken := range map[string]func(p *pair){
		"sent, then lost":   func(p *pair) { p.after = lost },
		"an untyped error":  func(p *pair) { p.before = func(int) error { return errLost } },
		"the leader panics": func(p *pair) { p.leader.fail = func(job.Command) error { panic("with /some/path and internals") } },
		"a reply to nothing": func(p *pair) {
			p.follower.admin.cfg.Forward = echo{}
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t)
			r := p.leader.admit(t, "a", job.MutationCreate)
			broken(p)
			_, err := cancelJob(t.Context(), p.follower, int64(r.ID))
			e := refusal(t, err, admin.TAdminErrorCode_OUTCOME_UNKNOWN)
			if !strings.Contains(e.GetNextStep(), "job show") || strings.Contains(e.Message, "/some/path") {
				t.Errorf("told %q, next %q", e.Message, e.GetNextStep())
			}
			if p.count() > 1 {
				t.Errorf("sent %d times", p.count())
			}
			if name == "the leader panics" {
				if strings.Contains(p.leader.log.String(), "/some/path") || !strings.Contains(p.leader.log.String(), "panic") {
					t.Error("the leader's log shows the panic's value, or no panic")
				}
				return
			}
			_, err = getJob(t.Context(), p.follower, int64(r.ID))
			wantCode(t, err, admin.TAdminErrorCode_UNAVAILABLE)
			if p.count() > 2 {
				t.Errorf("a read was sent %d times", p.count()-1)
			}
		})
	}
}

// echo answers with the message itself.
type echo struct{}

func (echo) Forward(_ context.Context, _ string, _ Principal, message []byte) ([]byte, error) {
	return message, nil
}

// What certainly was not sent is tried again while a request may wait, and then nothing was changed.
func TestWhatWasNotSentIsSentAgain(t *testing.T) {
	p := newPair(t)
	r := p.leader.admit(t, "a", job.MutationCreate)
	p.before = func(n int) error {
		if n == 1 {
			return unsent(n)
		}
		return nil
	}
	p.follower.admin.cfg.Wait = bound
	if _, err := cancelJob(t.Context(), p.follower, int64(r.ID)); err != nil || p.count() != 2 {
		t.Errorf("%v after %d messages", err, p.count())
	}
	p.before = unsent
	p.follower.admin.cfg.Wait = 10 * time.Millisecond
	for _, call := range []func() error{
		func() error { _, err := cancelJob(t.Context(), p.follower, int64(r.ID)); return err },
		func() error { _, err := getJob(t.Context(), p.follower, int64(r.ID)); return err },
	} {
		e := refusal(t, call(), admin.TAdminErrorCode_UNAVAILABLE)
		if !strings.Contains(e.Message, "n1") || !strings.Contains(e.Message, "nothing was changed") {
			t.Errorf("told %q", e.Message)
		}
	}
}

// A leader that is none any more did nothing: the call goes on to the one that is.
func TestADeposedLeaderIsLeft(t *testing.T) {
	p := newPair(t)
	r := p.leader.admit(t, "a", job.MutationCreate)
	p.follower.admin.cfg.Wait = bound
	asked := 0
	p.leader.leader = func(context.Context) (Leader, error) {
		if asked++; asked == 1 {
			return Leader{NodeID: "n3"}, nil
		}
		return Leader{Self: true}, nil
	}
	if _, err := cancelJob(t.Context(), p.follower, int64(r.ID)); err != nil || p.count() != 2 {
		t.Errorf("%v after %d messages", err, p.count())
	}
}

// This node may lose the leadership between the look and the journal: nothing was appended, and the
// next leader gets the call.
func TestLeadershipLostBeforeTheJournal(t *testing.T) {
	p := newPair(t)
	r := p.leader.admit(t, "a", job.MutationCreate)
	p.follower.admit(t, "a", job.MutationCreate)
	p.follower.admin.cfg.Wait = bound
	asked := 0
	p.follower.leader = func(context.Context) (Leader, error) {
		asked++
		return Leader{Self: asked == 1, NodeID: "n1"}, nil
	}
	p.follower.barrier = nil
	p.follower.fail = func(job.Command) error { return errors.Join(job.ErrNotAppended, ErrNotLeader) }
	got, err := cancelJob(t.Context(), p.follower, int64(r.ID))
	if err != nil || got.State != admin.TJobState_NOT_COMMITTED || p.count() != 1 {
		t.Errorf("%v, %v after %d messages", got, err, p.count())
	}
}

// What was forwarded is never forwarded again, be it a call or a report.
func TestForwardedCallsGoNoFurther(t *testing.T) {
	p := newPair(t)
	r := p.leader.running(t, "a")
	onward := &link{before: lost}
	p.leader.admin.cfg.Forward, p.leader.reports.cfg.Forward = onward, onward
	p.leader.leader = func(context.Context) (Leader, error) { return Leader{NodeID: "n3"}, nil }
	for _, call := range []func() error{
		func() error { _, err := cancelJob(t.Context(), p.follower, int64(r.ID)); return err },
		func() error { _, err := getJob(t.Context(), p.follower, int64(r.ID)); return err },
	} {
		e := refusal(t, call(), admin.TAdminErrorCode_NOT_LEADER)
		if !strings.Contains(e.Message, "n3") {
			t.Errorf("told %q", e.Message)
		}
	}
	if _, err := p.follower.reports.ReportLanceIndexJobResult_(t.Context(), reportOf(r, nativeOK)); !errors.Is(err, errNotRecorded) {
		t.Errorf("the report's call ends with %v", err)
	}
	if onward.count() != 0 {
		t.Errorf("%d messages went on", onward.count())
	}
}

// Without a leader the caller is told so in time, and what the node waits for.
func TestNoLeader(t *testing.T) {
	b := newBench(t)
	b.leader = func(ctx context.Context) (Leader, error) { <-ctx.Done(); return Leader{}, ctx.Err() }
	b.status = NodeStatus{NodeID: "n2", NotReadyReason: "no leader", WaitingFor: "n3 to be reachable"}
	b.admin.cfg.Forward = echo{}
	for _, call := range []func() error{
		func() error { _, err := cancelJob(t.Context(), b, 1); return err },
		func() error { _, err := getJob(t.Context(), b, 1); return err },
	} {
		e := refusal(t, call(), admin.TAdminErrorCode_NOT_LEADER)
		if !strings.Contains(e.Message, "n3 to be reachable") || !strings.Contains(e.GetNextStep(), "cluster status --stale") {
			t.Errorf("told %q, next %q", e.Message, e.GetNextStep())
		}
	}
}

// A master asks the leader for a version that the leader does not know.
func TestAnOlderLeader(t *testing.T) {
	p := newPair(t)
	delete(p.to.services[serviceAdmin].processor.ProcessorMap(), "cancelJob")
	_, err := cancelJob(t.Context(), p.follower, 1)
	e := refusal(t, err, admin.TAdminErrorCode_UNAVAILABLE)
	if !strings.Contains(e.Message, "nothing was changed") || !strings.Contains(e.Message, "older version") || p.count() != 1 {
		t.Errorf("told %q after %d messages", e.Message, p.count())
	}
}

// A stale read is answered here, from what this node has; nothing else takes it.
func TestStaleReads(t *testing.T) {
	p := newPair(t)
	r := p.follower.admit(t, "here", job.MutationCreate)
	p.follower.leader = func(context.Context) (Leader, error) { t.Error("looked for a leader"); return Leader{}, errLost }
	id := int64(r.ID)
	stale := &admin.TRequestContext{Stale: ptr(true)}
	got, err := p.follower.admin.GetJob(t.Context(), &admin.TGetJobRequest{Ctx: stale, JobID: &id})
	if err != nil || got.Target.IndexName != "here" {
		t.Errorf("read %v, %v", got, err)
	}
	got, err = p.follower.admin.WaitJob(t.Context(), &admin.TWaitJobRequest{Ctx: stale, JobID: &id, AfterRevision: ptr(int64(9)), WaitMs: ptr(int64(1))})
	if err != nil || got.JobID != id {
		t.Errorf("waited: %v, %v", got, err)
	}
	_, err = p.follower.admin.CancelJob(t.Context(), &admin.TJobVerbRequest{Ctx: stale, JobID: &id})
	wantCode(t, err, admin.TAdminErrorCode_INVALID)
	if p.count() != 0 || p.follower.barrierCount() != 0 {
		t.Errorf("%d messages and %d barriers", p.count(), p.follower.barrierCount())
	}
}

// A long poll through a follower ends at the leader when its caller goes away, and at once when the
// follower stops.
func TestLongPollsThroughAFollower(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, hangUp, stop func()){
		"the caller goes":    func(_ *testing.T, hangUp, _ func()) { hangUp() },
		"the follower stops": func(_ *testing.T, _, stop func()) { stop() },
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t)
			r := p.leader.admit(t, "a", job.MutationCreate)
			p.began = make(chan struct{}, 1)
			ended := make(chan struct{})
			p.follower.admin.cfg.Forward = watched{p.link, ended}
			_, admins := serveBoth(t, p.follower)
			conn := connect(t, admins.Addr())
			answered := make(chan error, 1)
			go func() {
				_, err := admin.NewAdminServiceClient(conn).WaitJob(context.Background(), &admin.TWaitJobRequest{
					JobID: ptr(int64(r.ID)), AfterRevision: ptr(int64(0)), WaitMs: ptr(int64(60_000)),
				})
				answered <- err
			}()
			<-p.began
			end(t, func() { _ = conn.Close() }, func() {
				ctx, cancel := context.WithTimeout(context.Background(), bound)
				defer cancel()
				if err := admins.Stop(ctx); err != nil {
					t.Error(err)
				}
			})
			select {
			case <-ended:
			case <-time.After(bound):
				t.Error("the forwarded call does not end")
			}
			err := <-answered
			if name == "the follower stops" {
				wantCode(t, err, admin.TAdminErrorCode_UNAVAILABLE)
			} else if err == nil {
				t.Error("answered to a closed connection")
			}
		})
	}
}

// watched tells when a forwarded call has ended.
type watched struct {
	Forwarder
	ended chan struct{}
}

func (w watched) Forward(ctx context.Context, service string, as Principal, message []byte) ([]byte, error) {
	defer close(w.ended)
	return w.Forwarder.Forward(ctx, service, as, message)
}

// A report is held until a leader is known, and is then forwarded, once; its answer is the leader's.
func TestReportsAreForwardedOnce(t *testing.T) {
	p := newPair(t)
	r := p.leader.running(t, "a")
	known := make(chan struct{})
	p.follower.reports.cfg.Hold = bound
	looking := make(chan struct{}, 1)
	p.follower.leader = func(ctx context.Context) (Leader, error) {
		looking <- struct{}{}
		select {
		case <-known:
			return Leader{NodeID: "n1"}, nil
		case <-ctx.Done():
			return Leader{}, ctx.Err()
		}
	}
	done := make(chan error, 1)
	go func() {
		answer, err := p.follower.reports.ReportLanceIndexJobResult_(context.Background(), reportOf(r, nativeOK))
		if err == nil && len(answer.ErrorMsgs) > 0 {
			err = errors.New(answer.ErrorMsgs[0])
		}
		done <- err
	}()
	<-looking
	if p.count() != 0 {
		t.Error("forwarded to nobody")
	}
	close(known)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if p.leader.record(t, r.ID).State != job.StateCommitted || p.count() != 1 || len(p.follower.commands()) != 0 {
		t.Errorf("%s after %d messages, and the follower proposed %v", p.leader.record(t, r.ID).State, p.count(), p.follower.commands())
	}
	// Again: what the leader drops is told in its words.
	answer, err := p.follower.reports.ReportLanceIndexJobResult_(t.Context(), reportOf(r, nativeOK))
	if err != nil || len(answer.ErrorMsgs) != 1 || !strings.HasPrefix(answer.ErrorMsgs[0], "duplicate") {
		t.Errorf("answered %v, %v", answer, err)
	}
	if strings.Contains(p.leader.log.String()+p.follower.log.String(), secret) {
		t.Error("the secret was logged")
	}
}

// A report whose answer was lost fails its call and is not sent again: the backend does that. One
// that never left is held for the leader to come.
func TestReportsThatGetNoAnswer(t *testing.T) {
	p := newPair(t)
	r := p.leader.running(t, "a")
	p.follower.reports.cfg.Hold = bound
	calls := map[string]func() error{
		"result": func() error {
			_, err := p.follower.reports.ReportLanceIndexJobResult_(t.Context(), reportOf(r, nativeOK))
			return err
		},
		"termination": func() error {
			_, err := p.follower.reports.ReportLanceIndexJobTermination(t.Context(), terminationOf(r, reaped))
			return err
		},
	}
	p.before = lost
	for name, call := range calls {
		sent := p.count()
		if err := call(); !errors.Is(err, errNotRecorded) || p.count() != sent+1 {
			t.Errorf("%s: %v after %d messages", name, err, p.count()-sent)
		}
	}
	for name, call := range calls {
		first := p.count() + 1
		p.before = func(n int) error {
			if n == first {
				return unsent(n)
			}
			return nil
		}
		if err := call(); err != nil || p.count() != first+1 {
			t.Errorf("%s: %v after %d messages", name, err, p.count()-first+1)
		}
	}
	p.before, p.follower.reports.cfg.Hold = unsent, 10*time.Millisecond
	if err := calls["result"](); !errors.Is(err, errNotRecorded) {
		t.Errorf("a leader out of reach: %v", err)
	}
}

// The receiving side holds to the bounds of the servers and says what it cannot serve.
func TestForwardedBounds(t *testing.T) {
	p := newPair(t)
	getJob := callOf(t, "binary", "getJob", &admin.AdminServiceGetJobArgs{Request: &admin.TGetJobRequest{JobID: ptr(int64(1))}})
	as := Principal{Name: "ops", Role: job.RoleAdmin, Verified: true}
	for name, c := range map[string]struct {
		service string
		message []byte
	}{
		"no such service": {"nothing", getJob},
		"empty":           {serviceAdmin, nil},
		"no Thrift":       {serviceAdmin, []byte("GET / HTTP/1.1\r\n\r\n")},
		"too large": {serviceReport, callOf(t, "binary", "reportLanceIndexJobResult", &report.ReportServiceReportLanceIndexJobResultArgs{
			Report: &report.TLanceIndexJobReport{JobID: 1, DispatchRevision: 1, InvocationID: "x", ResultCode: nativeOK, SanitizedMessage: ptr(strings.Repeat("x", maxReport))},
		})},
		"a one-way call": {serviceAdmin, bytes.Replace(getJob, []byte{0x80, 1, 0, 1}, []byte{0x80, 1, 0, 4}, 1)},
		"a reply":        {serviceAdmin, bytes.Replace(getJob, []byte{0x80, 1, 0, 1}, []byte{0x80, 1, 0, 2}, 1)},
		"a huge name":    {serviceAdmin, callOf(t, "binary", strings.Repeat("x", maxMethodName+1), &admin.AdminServiceGetJobArgs{})},
	} {
		if reply, err := p.to.Serve(t.Context(), c.service, as, c.message); err == nil {
			t.Errorf("%s: answered with %q", name, reply)
		}
	}
	for name, message := range map[string][]byte{
		"a method of another service": callOf(t, "binary", "reportLanceIndexJobResult", &report.ReportServiceReportLanceIndexJobResultArgs{}),
		"a list beyond the bound": callOf(t, "binary", "resetSettings", &admin.AdminServiceResetSettingsArgs{
			Request: &admin.TResetSettingsRequest{Names: slices.Repeat([]string{"a"}, maxAdminItems+1)},
		}),
		"text that is none": callOf(t, "binary", "getCatalog", &admin.AdminServiceGetCatalogArgs{Request: &admin.TGetCatalogRequest{Name: ptr("\xff")}}),
	} {
		reply, err := p.to.Serve(t.Context(), serviceAdmin, as, message)
		if err != nil || !bytes.HasPrefix(reply, []byte{0x80, 1, 0, 3}) {
			t.Errorf("%s: answered with %q, %v", name, reply, err)
		}
	}
	if len(p.leader.commands()) != 0 {
		t.Errorf("proposed %v", p.leader.commands())
	}
}

// Whatever another master sends, this one lives, and changes nothing that the principal's role is too
// low for.
func FuzzForwarded(f *testing.F) {
	for method, args := range adminCalls() {
		f.Add(callOf(f, "binary", method, args))
	}
	b := newBench(f)
	b.submit = func(context.Context, job.Submission) (job.SubmissionOutcome, error) {
		return job.SubmissionOutcome{Kind: job.SubmissionNoop, Detail: "nothing"}, nil
	}
	b.inspect = func(context.Context, InspectRequest) (Inspection, error) { return Inspection{}, nil }
	to := NewForwarded(b.reports, b.admin)
	f.Fuzz(func(t *testing.T, data []byte) {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		for _, service := range []string{serviceAdmin, serviceReport} {
			reply, err := to.Serve(ctx, service, Principal{Name: "x", Role: job.RoleSubmit}, data)
			if errors.Is(err, errPanic) {
				t.Error("a handler panicked")
			}
			if err == nil && len(reply) == 0 {
				t.Error("neither a reply nor an error")
			}
		}
		if len(b.commands()) != 0 {
			t.Errorf("proposed %v", b.commands())
		}
	})
}

// Whatever a leader replies, the call ends with an answer or an error.
func FuzzForwardedReply(f *testing.F) {
	b := newBench(f)
	b.admit(f, "a", job.MutationCreate)
	ok, err := NewForwarded(b.reports, b.admin).Serve(f.Context(), serviceAdmin, Principal{Role: job.RoleRead},
		callOf(f, "binary", "getJob", &admin.AdminServiceGetJobArgs{Request: &admin.TGetJobRequest{JobID: ptr(int64(1))}}))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(ok)
	f.Add(ok[:len(ok)-1])
	f.Add(append(bytes.Clone(ok), 0))
	f.Add([]byte{0x80, 1, 0, 3, 0, 0, 0, 6, 'g', 'e', 't', 'J', 'o', 'b', 0, 0, 0, 1})
	f.Fuzz(func(t *testing.T, data []byte) {
		service := admin.NewAdminServiceClient(leaderClient{replies(data), serviceAdmin, Principal{}})
		got, err := service.GetJob(t.Context(), &admin.TGetJobRequest{})
		if (got == nil) != (err != nil) {
			t.Errorf("answered %v, %v", got, err)
		}
		if isUnsent(err) {
			t.Error("a call with a reply counts as never sent")
		}
	})
}

type replies []byte

func (r replies) Forward(context.Context, string, Principal, []byte) ([]byte, error) { return r, nil }
