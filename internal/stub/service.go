package stub

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/apache/thrift/lib/go/thrift"

	"github.com/lancemaster/lancemaster/gen-go/backend"
	"github.com/lancemaster/lancemaster/gen-go/shared"
	"github.com/lancemaster/lancemaster/internal/thriftnet"
)

// process is what a backend process knows: it goes with a restart. Stub.mu guards it.
type process struct {
	epoch    int64
	life     context.Context // of the workers
	end      context.CancelFunc
	master   master
	accepted map[string]bool // invocation ids answered OK
}

// master is what the heartbeats have told.
type master struct {
	known   bool
	cluster int32
	token   string
	epoch   int64
	address string // of the report service
}

func newProcess(base context.Context, epoch int64) process {
	life, end := context.WithCancel(base)
	return process{epoch: epoch, life: life, end: end, accepted: map[string]bool{}}
}

// service answers both services' calls.
type service struct{ stub *Stub }

var (
	_ backend.BackendService   = service{}
	_ backend.HeartbeatService = service{}
)

func status(code shared.TStatusCode, texts ...string) *shared.TStatus {
	return &shared.TStatus{StatusCode: code, ErrorMsgs: texts}
}

var errNoArgument = errors.New("the call has no argument")

// Heartbeat answers a master's heartbeat.
func (v service) Heartbeat(_ context.Context, m *backend.TMasterInfo) (*backend.THeartbeatResult_, error) {
	if m == nil || m.NetworkAddress == nil {
		return nil, errNoArgument
	}
	s := v.stub
	s.mu.Lock()
	defer s.mu.Unlock()
	epoch := s.state.epoch
	info := &backend.TBackendInfo{BePort: portOf(s.Addr()), BeStartTime: &epoch}
	if s.cfg.Version != "" {
		info.Version = &s.cfg.Version
	}
	return &backend.THeartbeatResult_{Status: s.state.master.hear(m), BackendInfo: info}, nil
}

// hear takes in what a heartbeat says, or says why not.
func (k *master) hear(m *backend.TMasterInfo) *shared.TStatus {
	address := net.JoinHostPort(m.NetworkAddress.Hostname, strconv.Itoa(int(m.NetworkAddress.Port)))
	switch {
	case m.ClusterID <= 0:
		return status(shared.TStatusCode_INVALID_ARGUMENT, fmt.Sprintf("cluster id %d is not positive", m.ClusterID))
	case !k.known:
	case m.ClusterID != k.cluster:
		return status(shared.TStatusCode_INVALID_ARGUMENT,
			fmt.Sprintf("this backend serves cluster %d, not %d; restart it to move it", k.cluster, m.ClusterID))
	case subtle.ConstantTimeCompare([]byte(m.GetToken()), []byte(k.token)) != 1:
		return status(shared.TStatusCode_NOT_AUTHORIZED, "the token has changed; restart this backend to accept another")
	case address != k.address && m.Epoch <= k.epoch:
		return status(shared.TStatusCode_INVALID_ARGUMENT,
			fmt.Sprintf("another master at epoch %d, not above %d, is refused", m.Epoch, k.epoch))
	}
	*k = master{known: true, cluster: m.ClusterID, token: m.GetToken(), epoch: max(m.Epoch, k.epoch), address: address}
	return status(shared.TStatusCode_OK)
}

// SubmitLanceIndexJob makes the checks and leaves the rest to the behaviour.
func (v service) SubmitLanceIndexJob(ctx context.Context, d *backend.TLanceIndexJobDispatch) (*shared.TStatus, error) {
	if d == nil {
		return nil, errNoArgument
	}
	s := v.stub
	call, refused := s.check(d)
	if refused != nil {
		s.cfg.Logger.Info("refused a dispatch", "job", d.JobID, "status", refused.StatusCode.String())
		return refused, nil
	}
	if call == nil {
		return status(shared.TStatusCode_OK), nil // a repetition of what runs already
	}
	answer := s.cfg.Behaviour.Dispatched(ctx, call)
	s.cfg.Logger.Info("answered a dispatch", "job", d.JobID, "status", answer.Status, "conduct", answer.Conduct.String())
	switch answer.Conduct {
	case Hang:
		s.hang(ctx, call)
		return nil, thrift.ErrAbandonRequest
	case Close:
		return nil, thrift.ErrAbandonRequest
	case Garbage:
		s.sockets.write(thriftnet.Peer(ctx), garbage)
		return nil, thrift.ErrAbandonRequest
	case Reply:
	}
	if answer.Status == int32(shared.TStatusCode_OK) {
		s.accept(call)
	}
	return status(shared.TStatusCode(answer.Status), answer.Messages...), nil
}

// check makes the checks that every backend makes. A nil call with a nil status is a repetition.
func (s *Stub) check(d *backend.TLanceIndexJobDispatch) (*Call, *shared.TStatus) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch now := s.cfg.Now().UnixMilli(); {
	case !s.state.master.known:
		return nil, status(shared.TStatusCode_CANCELLED, "no master has sent a heartbeat to this backend yet; nothing was run")
	case d.BeProcessEpoch != s.state.epoch:
		return nil, status(shared.TStatusCode_ABORTED,
			fmt.Sprintf("the dispatch is for the process started at %d, this one started at %d; nothing was run", d.BeProcessEpoch, s.state.epoch))
	case d.DeadlineMs <= now:
		return nil, status(shared.TStatusCode_TIMEOUT,
			fmt.Sprintf("the deadline passed %s ago; nothing was run", time.Duration(now-d.DeadlineMs)*time.Millisecond))
	case s.state.accepted[d.InvocationID]:
		return nil, nil
	}
	return &Call{stub: s, dispatch: d, life: s.state.life}, nil
}

// accept notes an invocation that runs, and starts what its behaviour left to do.
func (s *Stub) accept(c *Call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state.life != c.life || c.life.Err() != nil || s.state.accepted[c.dispatch.InvocationID] {
		return // restarted or stopped since
	}
	s.state.accepted[c.dispatch.InvocationID] = true
	for _, work := range c.later {
		s.running.Go(func() { work(c.life, reporter{stub: s, dispatch: c.dispatch}) })
	}
}

// hang says nothing until the peer, the process or the stub is gone.
func (s *Stub) hang(ctx context.Context, c *Call) {
	select {
	case <-ctx.Done():
	case <-c.life.Done():
	case <-thriftnet.Gone(ctx):
	}
}
