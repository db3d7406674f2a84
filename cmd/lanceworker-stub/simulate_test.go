package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lancemaster/lancemaster/gen-go/backend"
	"github.com/lancemaster/lancemaster/gen-go/report"
	"github.com/lancemaster/lancemaster/gen-go/shared"
	"github.com/lancemaster/lancemaster/internal/stub"
	"github.com/lancemaster/lancemaster/internal/thriftnet"
)

const bound = 10 * time.Second

func TestRules(t *testing.T) {
	said := func(o stub.Outcome) stub.Outcome {
		o.Message = simulated + o.Message
		return o
	}
	tests := []struct {
		text      string
		pattern   string
		behaviour stub.Behaviour
	}{
		{"status=TOO_MANY_TASKS", "*", stub.Always{Status: 16, Messages: []string{simulated}}},
		{"status=OK", "*", stub.Always{}},
		{"status=0", "*", stub.Always{}},
		{"a*:status=-7", "a*", stub.Always{Status: -7, Messages: []string{simulated}}},
		{"hang", "*", stub.Always{Conduct: stub.Hang}},
		{"a:b=c:close", "a:b=c", stub.Always{Conduct: stub.Close}},
		{"*:garbage", "*", stub.Always{Conduct: stub.Garbage}},
		{"report=NATIVE_OK", "*", stub.Report{Outcome: said(stub.Outcome{Code: 5})}},
		{"report=99,advanced", "*", stub.Report{Outcome: said(stub.Outcome{Code: 99, MetadataAdvanced: true})}},
		{
			"x?:report=NATIVE_IO,after=1500ms,late,proof=CHILD_REAPED,termination=NEVER_LAUNCHED,secret=wrong,times=3,message=a: b, c=d", "x?",
			stub.Report{
				Outcome: said(stub.Outcome{Code: 11, Proof: 2, Message: "; a: b, c=d"}), After: 1500 * time.Millisecond, Late: true, Times: 3,
				Secret: stub.WrongSecret, Termination: 3,
			},
		},
		{"report=5,proof=9,secret=none,times=100", "*", stub.Report{Outcome: said(stub.Outcome{Code: 5, Proof: 9}), Secret: stub.NoSecret, Times: 100}},
		{"report=5,secret=right", "*", stub.Report{Outcome: said(stub.Outcome{Code: 5})}},
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
	cmd := command(io.Discard, io.Discard)
	cmd.SetArgs([]string{"--simulate", "restart"})
	if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), `--simulate "restart"`) {
		t.Errorf("the command says %v", err)
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

// sink is a master's report service that passes results on.
type sink chan *report.TLanceIndexJobReport

//nolint:revive // the name is the generated interface's
func (s sink) ReportLanceIndexJobResult_(_ context.Context, r *report.TLanceIndexJobReport) (*shared.TStatus, error) {
	s <- r
	return &shared.TStatus{}, nil
}

func (sink) ReportLanceIndexJobTermination(context.Context, *report.TLanceIndexJobTerminationReport) (*shared.TStatus, error) {
	return &shared.TStatus{}, nil
}

// program is the command, running.
type program struct {
	t    *testing.T
	out  *bufio.Reader
	log  bytes.Buffer
	said []string // the first line, and in it the two addresses
	end  func()   // waits; the log may be read after it
}

func startProgram(t *testing.T, args ...string) *program {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	p := &program{t: t, out: bufio.NewReader(r)}
	cmd := command(w, &p.log)
	cmd.SetArgs(append([]string{"--listen", "127.0.0.1:0", "--heartbeat-listen", "127.0.0.1:0"}, args...))
	done := make(chan error, 1)
	go func() {
		err := cmd.ExecuteContext(ctx)
		_ = w.CloseWithError(io.EOF)
		done <- err
	}()
	ended := false
	p.end = func() {
		if ended {
			return
		}
		ended = true
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("it ends with %v", err)
			}
		case <-time.After(bound):
			t.Error("it does not stop")
		}
	}
	t.Cleanup(p.end)
	p.said = p.line(`^lanceworker-stub SIMULATES outcomes and builds no index; backend (\S+) heartbeat (\S+)\n$`)
	return p
}

func (p *program) line(pattern string) []string {
	p.t.Helper()
	line, err := p.out.ReadString('\n')
	found := regexp.MustCompile(pattern).FindStringSubmatch(line)
	if err != nil || found == nil {
		p.t.Fatalf("it says %q, %v; want %s", line, err, pattern)
	}
	return found
}

func (p *program) dial(address string) *thriftnet.Client {
	p.t.Helper()
	c, err := thriftnet.Dial(p.t.Context(), address, thriftnet.ClientConfig{Timeout: bound})
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = c.Close() })
	return c
}

// beat sends a heartbeat of a master that takes reports at an address.
func (p *program) beat(reports string) *backend.THeartbeatResult_ {
	p.t.Helper()
	host, text, _ := net.SplitHostPort(reports)
	port, _ := strconv.ParseInt(text, 10, 32)
	got, err := backend.NewHeartbeatServiceClient(p.dial(p.said[2])).Heartbeat(p.t.Context(), &backend.TMasterInfo{
		NetworkAddress: &shared.TNetworkAddress{Hostname: host, Port: int32(port)}, ClusterID: 9, Epoch: 1,
	})
	if err != nil || got.Status.StatusCode != shared.TStatusCode_OK {
		p.t.Fatalf("the heartbeat is answered %v, %v", got, err)
	}
	return got
}

func (p *program) dispatch(epoch int64, index string) *shared.TStatus {
	p.t.Helper()
	got, err := backend.NewBackendServiceClient(p.dial(p.said[1])).SubmitLanceIndexJob(p.t.Context(), &backend.TLanceIndexJobDispatch{
		JobID: 7, DispatchRevision: 1, InvocationID: "inv-" + index, BeProcessEpoch: epoch, IndexName: index,
		DeadlineMs: time.Now().Add(time.Hour).UnixMilli(), MutationType: shared.TLanceIndexMutationType_CREATE,
	})
	if err != nil {
		p.t.Fatal(err)
	}
	return got
}

// The program does by the index's name what its rules say, says everywhere that it only simulates,
// and looks restarted after SIGHUP.
func TestSimulates(t *testing.T) {
	results := make(sink, 10)
	master, err := thriftnet.New(thriftnet.Config{Name: "report", Address: "127.0.0.1:0", Processor: report.NewReportServiceProcessor(results)})
	if err != nil {
		t.Fatal(err)
	}
	if err := master.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), bound)
		defer cancel()
		if err := master.Stop(ctx); err != nil {
			t.Error(err)
		}
	}()
	p := startProgram(t, "--simulate", "done_*:report=NATIVE_OK,proof=CHILD_REAPED", "--simulate", "busy_*:status=TOO_MANY_TASKS")

	info := p.beat(master.Addr().String()).BackendInfo
	if !strings.HasPrefix(info.GetVersion(), "lanceworker-stub ") || !strings.HasSuffix(info.GetVersion(), " SIMULATED") {
		t.Errorf("its heartbeats tell version %q", info.GetVersion())
	}
	epoch := info.GetBeStartTime()
	if got := p.dispatch(epoch, "busy_1"); got.StatusCode != shared.TStatusCode_TOO_MANY_TASKS || len(got.ErrorMsgs) != 1 || got.ErrorMsgs[0] != simulated {
		t.Errorf("busy_1 is answered %v", got)
	}
	if got := p.dispatch(epoch, "other"); got.StatusCode != shared.TStatusCode_NOT_IMPLEMENTED_ERROR {
		t.Errorf("a job that no rule is for is answered %v", got)
	}
	if got := p.dispatch(epoch, "done_1"); got.StatusCode != shared.TStatusCode_OK {
		t.Fatalf("done_1 is answered %v", got)
	}
	select {
	case r := <-results:
		if r.ResultCode != 5 || r.GetTerminationProof() != 2 || r.GetSanitizedMessage() != simulated || r.InvocationID != "inv-done_1" {
			t.Errorf("reported %v", r)
		}
	case <-time.After(bound):
		t.Fatal("no report")
	}

	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if err := self.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	told := p.line(`^lanceworker-stub simulates a restart; process epoch (\d+)\n$`)
	again := p.beat(master.Addr().String()).BackendInfo.GetBeStartTime()
	if again <= epoch || told[1] != strconv.FormatInt(again, 10) {
		t.Errorf("restarted from epoch %d to %d, told as %s", epoch, again, told[1])
	}
	if got := p.dispatch(epoch, "done_1"); got.StatusCode != shared.TStatusCode_ABORTED {
		t.Errorf("a dispatch for the process before is answered %v", got)
	}
	p.end()
	if !strings.Contains(p.log.String(), "outcomes are SIMULATED") {
		t.Errorf("the log does not say that outcomes are simulated: %s", p.log.String())
	}
}

func TestHelpSaysSimulated(t *testing.T) {
	var out bytes.Buffer
	cmd := command(&out, io.Discard)
	cmd.SetArgs([]string{"--help"})
	if err := cmd.ExecuteContext(t.Context()); err != nil || !strings.Contains(out.String(), "SIMULATED") {
		t.Errorf("the help says %q, %v", out.String(), err)
	}
}
