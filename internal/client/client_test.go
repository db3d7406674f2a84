package client_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/thrift/lib/go/thrift"
	"go.uber.org/goleak"

	"github.com/lancemaster/lancemaster/internal/await"
	"github.com/lancemaster/lancemaster/internal/client"
	"github.com/lancemaster/lancemaster/internal/client/clienttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pauses counts the pauses of a client instead of making them.
type pauses struct {
	mu   sync.Mutex
	list []time.Duration
}

func (p *pauses) pause(ctx context.Context, d time.Duration) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.list = append(p.list, d)
	return ctx.Err()
}

func (p *pauses) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.list)
}

func newClient(t *testing.T, addresses ...string) (*client.Client, *pauses) {
	t.Helper()
	c, err := client.New(client.Config{Addresses: addresses, Name: "ada", Version: "test", CallTimeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	p := &pauses{}
	c.SetPause(p.pause)
	return c, p
}

// closedAddr is an address where nobody listens.
func closedAddr(t *testing.T) string {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func wantCode(t *testing.T, err error, code string) {
	t.Helper()
	_ = theError(t, err, code) // the code is all that is asked about
}

// theError is wantCode for those who look closer.
func theError(t *testing.T, err error, code string) *client.Error {
	t.Helper()
	var e *client.Error
	if !errors.As(err, &e) || e.Code != code {
		t.Fatalf("error is %v, want code %s", err, code)
	}
	return e
}

func notLeader(leader string) clienttest.Behavior {
	return clienttest.Behavior{Refusal: &clienttest.Refusal{Code: "NOT_LEADER", Message: "this master does not lead", Leader: leader}}
}

func unavailable() clienttest.Behavior {
	return clienttest.Behavior{Refusal: &clienttest.Refusal{Code: "UNAVAILABLE", Message: "no quorum"}}
}

func count(s *clienttest.Server) int { return len(s.Requests()) }

func TestFollowsLeader(t *testing.T) {
	follower, leader := clienttest.New(t), clienttest.New(t)
	follower.Always("*", notLeader(leader.Addr()))
	c, p := newClient(t, follower.Addr())
	for range 3 {
		if _, err := c.Job(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
	}
	if count(follower) != 1 || count(leader) != 3 || p.count() != 0 {
		t.Errorf("the follower was asked %d times and the leader %d times, with %d pauses; want 1, 3 and 0",
			count(follower), count(leader), p.count())
	}
	// A change is redirected as well: NOT_LEADER says that nothing was done.
	c, _ = newClient(t, follower.Addr())
	if _, err := c.DrainBackend(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
}

func TestNoAddressOfTheLeader(t *testing.T) {
	first, second := clienttest.New(t), clienttest.New(t)
	first.Always("*", notLeader(""))
	c, _ := newClient(t, first.Addr(), second.Addr())
	if _, err := c.SetSettings(t.Context(), []client.SettingValue{{Name: "admission.enabled", Value: "true"}}); err != nil {
		t.Fatal(err)
	}
}

func TestElectionIsWaitedFor(t *testing.T) {
	s := clienttest.New(t)
	s.Script("putCatalog", notLeader(""), notLeader(""), notLeader(""))
	c, p := newClient(t, s.Addr())
	if _, err := c.PutCatalog(t.Context(), client.Catalog{Name: "c"}); err != nil {
		t.Fatal(err)
	}
	if count(s) != 4 || p.count() != 3 {
		t.Errorf("%d calls and %d pauses; want 4 and 3", count(s), p.count())
	}
}

// TestHopsAreBounded has masters that each name the next as leader, more than are
// followed, and two that name each other.
func TestHopsAreBounded(t *testing.T) {
	chain := make([]*clienttest.Server, client.MaxRedirects+3)
	next := closedAddr(t)
	for i := range slices.Backward(chain) {
		chain[i] = clienttest.New(t)
		chain[i].Always("*", notLeader(next))
		next = chain[i].Addr()
	}
	c, p := newClient(t, chain[0].Addr())
	_, err := c.Job(t.Context(), 1)
	e := theError(t, err, client.CodeNotLeader)
	if e.Next == "" {
		t.Error("the error does not say what to do")
	}
	for i, s := range chain {
		want := client.MaxRounds
		if i > client.MaxRedirects {
			want = 0
		}
		if count(s) != want {
			t.Errorf("master %d was asked %d times, want %d", i, count(s), want)
		}
	}
	if p.count() != client.MaxRounds-1 {
		t.Errorf("%d pauses, want %d", p.count(), client.MaxRounds-1)
	}

	a, b := clienttest.New(t), clienttest.New(t)
	a.Always("*", notLeader(b.Addr()))
	b.Always("*", notLeader(a.Addr()))
	c, _ = newClient(t, a.Addr())
	_, err = c.Job(t.Context(), 1)
	wantCode(t, err, client.CodeNotLeader)
	if count(a) != client.MaxRounds || count(b) != client.MaxRounds {
		t.Errorf("asked %d and %d times, want %d each", count(a), count(b), client.MaxRounds)
	}
}

// TestNonsenseAddressOfLeader: what a master says is not dialed unless it is an
// address.
func TestNonsenseAddressOfLeader(t *testing.T) {
	for _, leader := range []string{"nonsense", "http://x:1/", "host:0", ":9021", strings.Repeat("x", 400) + ":1", "a b:9021", "a\x1b:9021"} {
		first, second := clienttest.New(t), clienttest.New(t)
		first.Always("*", notLeader(leader))
		c, _ := newClient(t, first.Addr(), second.Addr())
		if _, err := c.Job(t.Context(), 1); err != nil {
			t.Errorf("leader %q: %v", leader, err)
		}
	}
}

func TestFailover(t *testing.T) {
	s := clienttest.New(t)
	c, p := newClient(t, closedAddr(t), s.Addr())
	// Nothing was sent to the first, so a change may go to the second.
	if _, err := c.CancelJob(t.Context(), client.JobVerb{JobID: 5}); err != nil {
		t.Fatal(err)
	}
	if p.count() != 0 {
		t.Errorf("%d pauses before the next address", p.count())
	}
}

func TestNobodyThere(t *testing.T) {
	a, b := closedAddr(t), closedAddr(t)
	c, p := newClient(t, a, b)
	_, err := c.Job(t.Context(), 1)
	e := theError(t, err, client.CodeUnreachable)
	if !strings.Contains(e.Message, a) || !strings.Contains(e.Message, b) || !strings.Contains(e.Next, "--addr") {
		t.Errorf("the error is %q", e)
	}
	if p.count() != 0 {
		t.Errorf("%d pauses although nobody is there to wait for", p.count())
	}
}

// TestPatienceEnds: masters that each take their time to say that there is no leader
// are not gone through for minutes.
func TestPatienceEnds(t *testing.T) {
	s := clienttest.New(t)
	s.Always("*", notLeader(""))
	c, p := newClient(t, s.Addr())
	at := time.Now()
	c.SetNow(func() time.Time { at = at.Add(4 * time.Second); return at })
	_, err := c.Job(t.Context(), 1)
	wantCode(t, err, client.CodeNotLeader)
	if count(s) != 3 || p.count() != 2 {
		t.Errorf("asked %d times with %d pauses, want 3 and 2", count(s), p.count())
	}
}

// misbehaviors leave it open whether a call was carried out.
var misbehaviors = map[string]clienttest.Behavior{
	"closes":             {Drop: true},
	"answers garbage":    {Raw: []byte("HTTP/1.1 400 Bad Request\r\n\r\n")},
	"answers half":       {Raw: []byte{0x80, 1, 0, 2, 0, 0}},
	"internal exception": {Exception: thrift.INTERNAL_ERROR},
	"hangs":              {Hang: true},
	"journal unsure":     {Refusal: &clienttest.Refusal{Code: "OUTCOME_UNKNOWN", Message: "the journal did not answer"}},
}

// patience is short only where waiting for it is the test: a busy machine must not
// turn another misbehavior into a timeout.
func patience(b clienttest.Behavior) time.Duration {
	if b.Hang {
		return 500 * time.Millisecond
	}
	return 10 * time.Second
}

// TestChangeIsNotRepeated: whatever happens to an unrepeatable call after it was
// written, no master sees it again, and the caller is told.
func TestChangeIsNotRepeated(t *testing.T) {
	calls := map[string]func(context.Context, *client.Client) error{
		"settings": func(ctx context.Context, c *client.Client) error {
			_, err := c.SetSettings(ctx, []client.SettingValue{{Name: "admission.enabled", Value: "true"}})
			return err
		},
		"submission without a request id": func(ctx context.Context, c *client.Client) error {
			_, err := c.Submit(ctx, client.Submission{IndexName: "x", Mutation: "CREATE"})
			return err
		},
	}
	for how, b := range misbehaviors {
		for what, call := range calls {
			t.Run(what+"/"+how, func(t *testing.T) {
				first, second := clienttest.New(t), clienttest.New(t)
				first.Always("*", b)
				c, err := client.New(client.Config{Addresses: []string{first.Addr(), second.Addr()}, Name: "ada", CallTimeout: patience(b)})
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				e := theError(t, call(t.Context(), c), client.CodeOutcomeUnknown)
				if e.Next == "" || client.Transient(e) {
					t.Errorf("the error %v says nothing to do next, or seems harmless", e)
				}
				if count(first) != 1 || count(second) != 0 {
					t.Errorf("it was sent %d and %d times, want once", count(first), count(second))
				}
			})
		}
	}
}

// TestUnavailableIsAnAnswer: a change that a master says it did not make is not
// unknown, and not repeated either.
func TestUnavailableIsAnAnswer(t *testing.T) {
	s := clienttest.New(t)
	s.Always("*", unavailable())
	c, _ := newClient(t, s.Addr())
	_, err := c.CancelJob(t.Context(), client.JobVerb{JobID: 5})
	wantCode(t, err, client.CodeUnavailable)
	if count(s) != 1 {
		t.Errorf("%d calls, want 1", count(s))
	}
}

// TestSubmissionWithRequestID is carried out although no answer came, sent again, and
// finds its job.
func TestSubmissionWithRequestID(t *testing.T) {
	for how, b := range misbehaviors {
		if b.Refusal == nil && !b.Hang {
			b.Served = true
		}
		t.Run(how, func(t *testing.T) {
			first, second := clienttest.New(t), clienttest.New(t)
			first.Script("*", b)
			c, err := client.New(client.Config{Addresses: []string{first.Addr(), second.Addr()}, Name: "ada", CallTimeout: patience(b)})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			out, err := c.Submit(t.Context(), client.Submission{IndexName: "x", Mutation: "CREATE", RequestID: "r-1"})
			if err != nil || out.Job == nil || out.RequestID != "r-1" {
				t.Fatalf("%+v, %v", out, err)
			}
			if count(first)+count(second) != 2 {
				t.Errorf("it was sent %d times, want twice", count(first)+count(second))
			}
		})
	}
	t.Run("one master", func(t *testing.T) {
		s := clienttest.New(t)
		s.Script("submit", clienttest.Behavior{Drop: true, Served: true})
		c, _ := newClient(t, s.Addr())
		out, err := c.Submit(t.Context(), client.Submission{IndexName: "x", Mutation: "CREATE", RequestID: "r-1"})
		if err != nil || out.Outcome != client.OutcomeExisting {
			t.Fatalf("%+v, %v; want the job of the first attempt", out, err)
		}
	})
	t.Run("to no avail", func(t *testing.T) {
		s := clienttest.New(t)
		s.Always("submit", clienttest.Behavior{Drop: true})
		c, _ := newClient(t, s.Addr())
		_, err := c.Submit(t.Context(), client.Submission{IndexName: "x", Mutation: "CREATE", RequestID: "r-1"})
		e := theError(t, err, client.CodeOutcomeUnknown)
		if !strings.Contains(e.Next, "r-1") {
			t.Errorf("the next step %q does not name the request id", e.Next)
		}
		if count(s) != client.MaxRounds {
			t.Errorf("%d attempts, want %d", count(s), client.MaxRounds)
		}
	})
	t.Run("then refused", func(t *testing.T) {
		s := clienttest.New(t)
		s.Script("submit", clienttest.Behavior{Drop: true}, clienttest.Behavior{Refusal: &clienttest.Refusal{Code: "QUOTA_TABLE", Message: "too many"}})
		c, _ := newClient(t, s.Addr())
		_, err := c.Submit(t.Context(), client.Submission{IndexName: "x", Mutation: "CREATE", RequestID: "r-1"})
		if e := theError(t, err, "QUOTA_TABLE"); !strings.Contains(e.Message, "earlier attempt") {
			t.Errorf("%q hides the attempt that got no answer", e.Message)
		}
	})
}

func TestReadIsRepeated(t *testing.T) {
	for how, b := range misbehaviors {
		t.Run(how, func(t *testing.T) {
			first, second := clienttest.New(t), clienttest.New(t)
			first.Always("*", b)
			c, err := client.New(client.Config{Addresses: []string{first.Addr(), second.Addr()}, Name: "ada", CallTimeout: patience(b)})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if j, err := c.Job(t.Context(), 1); err != nil || j.ID != 1 {
				t.Fatalf("%v, %v", j, err)
			}
		})
	}
}

func TestTimeoutsAndCancellation(t *testing.T) {
	s := clienttest.New(t)
	s.Always("*", clienttest.Behavior{Hang: true})
	c, err := client.New(client.Config{Addresses: []string{s.Addr()}, Name: "ada", CallTimeout: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	begun := time.Now()
	_, err = c.Job(t.Context(), 1)
	if e := theError(t, err, client.CodeTimeout); !client.Transient(e) {
		t.Error("a timeout is not transient")
	}
	if took := time.Since(begun); took > 3*time.Second {
		t.Errorf("a call bounded by 100ms took %s", took)
	}

	long, _ := newClient(t, s.Addr())
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err = long.Job(ctx, 1)
	wantCode(t, err, client.CodeTimeout)

	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	asked := count(s)
	go func() {
		await.Poll(time.Millisecond, time.Minute, func() bool { return count(s) > asked })
		cancel()
	}()
	_, err = long.Job(ctx, 1)
	wantCode(t, err, client.CodeCanceled)
	if _, err := long.Job(ctx, 1); !client.IsCode(err, client.CodeCanceled) {
		t.Errorf("a call with an ended context gives %v", err)
	}
}

func TestRefusalIsKept(t *testing.T) {
	s := clienttest.New(t)
	s.Script("cancelJob", clienttest.Behavior{Refusal: &clienttest.Refusal{
		Code: "WRONG_STATE", Message: "job 4 is RUNNING", Next: "wait for it", Holder: 4, PresentJob: 4,
	}})
	other := clienttest.New(t)
	c, _ := newClient(t, s.Addr(), other.Addr())
	_, err := c.CancelJob(t.Context(), client.JobVerb{JobID: 4})
	e := theError(t, err, "WRONG_STATE")
	if e.Message != "job 4 is RUNNING" || e.Next != "wait for it" || e.Holder != 4 || e.Present == nil || e.Present.State != client.StateRunning {
		t.Errorf("%+v", e)
	}
	if e.Error() != "WRONG_STATE: job 4 is RUNNING; wait for it" {
		t.Errorf("%q", e.Error())
	}
	if count(other) != 0 {
		t.Error("a refusal was taken to another master")
	}
}

// A master that does not know the caller may be the one of all that is amiss: the others are asked, and it is
// not asked again.
func TestAnotherMasterMayKnowTheCaller(t *testing.T) {
	stranger := clienttest.Behavior{Refusal: &clienttest.Refusal{Code: "UNAUTHENTICATED", Message: "the certificate is signed by no CA that is trusted here"}}
	first, leader := clienttest.New(t), clienttest.New(t)
	first.Always("*", stranger)
	c, p := newClient(t, first.Addr(), leader.Addr())
	if _, err := c.DrainBackend(t.Context(), 1); err != nil {
		t.Error(err)
	}
	if count(first) != 1 || p.count() != 0 {
		t.Errorf("the first was asked %d times, with %d pauses", count(first), p.count())
	}
	// Where it is the leader that does not know the caller, that is the answer.
	leader.Always("*", stranger)
	c, p = newClient(t, closedAddr(t), first.Addr(), leader.Addr())
	_, err := c.Jobs(t.Context(), client.JobQuery{})
	if e := theError(t, err, "UNAUTHENTICATED"); !strings.Contains(e.Message, "signed by no CA") {
		t.Errorf("%v", e)
	}
	if count(first) != 2 || p.count() != 0 {
		t.Errorf("the first was asked %d times in all, with %d pauses", count(first), p.count())
	}
	// An election beside it is waited for.
	elected := clienttest.New(t)
	elected.Script("listJobs", notLeader(""), notLeader(""))
	c, p = newClient(t, first.Addr(), elected.Addr())
	if _, err := c.Jobs(t.Context(), client.JobQuery{}); err != nil || p.count() != 2 {
		t.Errorf("with %d pauses: %v", p.count(), err)
	}
	// One that lasts is told with what the first said.
	lasting := clienttest.New(t)
	lasting.Always("*", notLeader(""))
	c, _ = newClient(t, first.Addr(), lasting.Addr())
	_, err = c.Jobs(t.Context(), client.JobQuery{})
	if e := theError(t, err, client.CodeNotLeader); !strings.Contains(e.Message, "no leader was found") || !strings.Contains(e.Message, "signed by no CA") {
		t.Errorf("%v", e)
	}
	// A refusal after an election is an answer, at once and in full.
	for _, before := range []clienttest.Behavior{notLeader(""), unavailable()} {
		alone := clienttest.New(t)
		alone.Script("listJobs", before, stranger)
		c, p = newClient(t, alone.Addr())
		_, err = c.Jobs(t.Context(), client.JobQuery{})
		if e := theError(t, err, "UNAUTHENTICATED"); !strings.Contains(e.Message, "signed by no CA") || count(alone) != 2 || p.count() != 1 {
			t.Errorf("%d calls and %d pauses: %v", count(alone), p.count(), e)
		}
	}
}

func TestUnknownMethod(t *testing.T) {
	s := clienttest.New(t)
	s.Script("*", clienttest.Behavior{Exception: thrift.UNKNOWN_METHOD})
	c, _ := newClient(t, s.Addr())
	_, err := c.ReleaseSlot(t.Context(), client.JobVerb{JobID: 2})
	wantCode(t, err, client.CodeUnsupported)
}

func TestConnections(t *testing.T) {
	s := clienttest.New(t)
	c, _ := newClient(t, s.Addr())
	read := func() {
		t.Helper()
		if _, err := c.Job(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
	}
	read()
	read()
	if _, err := c.Job(t.Context(), 99); !client.IsCode(err, "NOT_FOUND") {
		t.Fatal(err)
	}
	read()
	if s.Accepted() != 1 {
		t.Errorf("reads took %d connections, want 1", s.Accepted())
	}
	s.CloseConns()
	read()
	if s.Accepted() != 2 {
		t.Errorf("after the server closed it, %d connections, want 2", s.Accepted())
	}
	for range 2 { // a change never trusts a connection that was idle
		if _, err := c.DrainBackend(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
	}
	if s.Accepted() != 4 {
		t.Errorf("after two changes, %d connections, want 4", s.Accepted())
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Job(t.Context(), 1); !client.IsCode(err, client.CodeCanceled) {
		t.Errorf("a closed client gives %v", err)
	}
}

func TestConcurrentUse(t *testing.T) {
	s := clienttest.New(t)
	c, _ := newClient(t, s.Addr())
	var wg sync.WaitGroup
	for n := range 8 {
		wg.Go(func() {
			for i := range 20 {
				id := int64((n+i)%7 + 1)
				if j, err := c.Job(t.Context(), id); err != nil || j.ID != id {
					t.Errorf("job %d: %v, %v", id, j, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func TestTLS(t *testing.T) {
	h := httptest.NewTLSServer(http.NotFoundHandler()) // for its certificate
	defer h.Close()
	s := clienttest.NewTLS(t, &tls.Config{Certificates: h.TLS.Certificates, MinVersion: tls.VersionTLS13})
	roots := x509.NewCertPool()
	roots.AddCert(h.Certificate())
	c, err := client.New(client.Config{Addresses: []string{s.Addr()}, Name: "ada", TLS: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS13}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Job(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	stranger, err := client.New(client.Config{Addresses: []string{s.Addr()}, Name: "ada", TLS: &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS13}})
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Close()
	_, err = stranger.Job(t.Context(), 1)
	wantCode(t, err, client.CodeUnreachable)
}

func TestParseAddresses(t *testing.T) {
	got, err := client.ParseAddresses("a:1, [::1]:9021 ,c.example.com:65535")
	if err != nil || !slices.Equal(got, []string{"a:1", "[::1]:9021", "c.example.com:65535"}) {
		t.Errorf("%q, %v", got, err)
	}
	for _, bad := range []string{"", "a", "a:1,", ":9021", "a:", "a:0", "a\n:1", "http://a:1/"} {
		if got, err := client.ParseAddresses(bad); err == nil {
			t.Errorf("%q gives %q", bad, got)
		}
		if _, err := client.New(client.Config{Addresses: []string{bad}}); err == nil {
			t.Errorf("New takes %q", bad)
		}
	}
}
