package scripted

import (
	"context"
	"errors"
	"maps"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/lancemaster/lancemaster/gen-go/backend"
	"github.com/lancemaster/lancemaster/gen-go/shared"
	"github.com/lancemaster/lancemaster/internal/oracle"
	"github.com/lancemaster/lancemaster/internal/thriftnet"
)

// Answer is how the backend ends one call of submit_lance_index_job.
type Answer struct {
	Status shared.TStatusCode
	Text   string
	// Cut closes the connection after the call was read, without an answer.
	Cut bool
	// Held delays the answer until the channel is closed, or the backend's end.
	Held <-chan struct{}
	// Then runs after the answer has been decided on, on a goroutine of the backend's.
	Then func(context.Context)
}

// Script decides on the answer to a dispatch.
type Script func(d *backend.TLanceIndexJobDispatch) Answer

// Config describes a backend.
type Config struct {
	Name     string                 // in what is recorded
	Address  string                 // the host that it listens on; default 127.0.0.1
	Speak    thriftnet.ClientConfig // of its reports, and the protocol that it serves
	Recorder *oracle.Recorder       // may be nil
	// Listen, where set, replaces TCP.
	Listen func(ctx context.Context, address string) (net.Listener, error)
}

// Backend is a running backend. It accepts everything and reports nothing until it has a script.
type Backend struct {
	cfg      Config
	be, beat *thriftnet.Server
	ctx      context.Context // ends with the backend
	end      context.CancelFunc
	running  sync.WaitGroup

	mu     sync.Mutex
	epoch  int64
	script Script
	sends  map[int64][]*backend.TLanceIndexJobDispatch
	conns  map[string]net.Conn // of the backend service, by the peer's address
	master *backend.TMasterInfo
	beats  int
	onBeat func(*backend.TMasterInfo) error
}

// Start starts a backend.
func Start(cfg Config) (*Backend, error) {
	if cfg.Address == "" {
		cfg.Address = "127.0.0.1"
	}
	if cfg.Listen == nil {
		cfg.Listen = func(ctx context.Context, address string) (net.Listener, error) {
			return new(net.ListenConfig).Listen(ctx, "tcp", address)
		}
	}
	b := &Backend{
		cfg: cfg, epoch: time.Now().UnixMilli(), script: func(*backend.TLanceIndexJobDispatch) Answer { return Answer{} },
		sends: map[int64][]*backend.TLanceIndexJobDispatch{}, conns: map[string]net.Conn{},
	}
	b.ctx, b.end = context.WithCancel(context.Background())
	at := net.JoinHostPort(cfg.Address, "0")
	var err error
	b.be, err = thriftnet.New(thriftnet.Config{
		Name: "scripted backend", Address: at, RequestTimeout: 10 * time.Minute, Protocol: cfg.Speak.Protocol, Framed: cfg.Speak.Framed,
		Processor: backend.NewBackendServiceProcessor(b), Listen: b.listen,
	})
	if err != nil {
		return nil, err
	}
	b.beat, err = thriftnet.New(thriftnet.Config{
		Name: "scripted heartbeat", Address: at, Protocol: cfg.Speak.Protocol, Framed: cfg.Speak.Framed,
		Processor: backend.NewHeartbeatServiceProcessor(b), Listen: cfg.Listen,
	})
	if err != nil {
		return nil, err
	}
	if err := errors.Join(b.be.Start(b.ctx), b.beat.Start(b.ctx)); err != nil {
		return nil, errors.Join(err, b.Stop(context.Background()))
	}
	return b, nil
}

// Stop ends the backend and waits for all that it began.
func (b *Backend) Stop(ctx context.Context) error {
	b.end()
	err := errors.Join(b.be.Stop(ctx), b.beat.Stop(ctx))
	b.running.Wait()
	return err
}

// Context ends with the backend.
func (b *Backend) Context() context.Context { return b.ctx }

// listen keeps the connections at hand, to be cut in the middle of a call.
func (b *Backend) listen(ctx context.Context, address string) (net.Listener, error) {
	l, err := b.cfg.Listen(ctx, address)
	return keeper{l, b}, err
}

type keeper struct {
	net.Listener
	b *Backend
}

func (k keeper) Accept() (net.Conn, error) {
	c, err := k.Listener.Accept()
	if err == nil {
		k.b.mu.Lock()
		k.b.conns[c.RemoteAddr().String()] = c
		k.b.mu.Unlock()
	}
	return c, err
}

// SubmitLanceIndexJob counts the send and answers by the script.
func (b *Backend) SubmitLanceIndexJob(ctx context.Context, d *backend.TLanceIndexJobDispatch) (*shared.TStatus, error) {
	if b.cfg.Recorder != nil {
		b.cfg.Recorder.Sent(oracle.Send{
			Backend: b.cfg.Name, Job: d.JobID, Revision: d.DispatchRevision, Invocation: d.InvocationID, ProcessEpoch: d.BeProcessEpoch,
		})
	}
	b.mu.Lock()
	b.sends[d.JobID] = append(b.sends[d.JobID], d)
	script, conn := b.script, b.conns[thriftnet.Peer(ctx)]
	b.mu.Unlock()
	a := script(d)
	if a.Held != nil {
		select {
		case <-a.Held:
		case <-b.ctx.Done():
		}
	}
	if a.Then != nil && b.ctx.Err() == nil {
		b.running.Go(func() { a.Then(b.ctx) })
	}
	if a.Cut && conn != nil {
		_ = conn.Close() // this is the misbehaviour asked for
	}
	status := &shared.TStatus{StatusCode: a.Status}
	if a.Text != "" {
		status.ErrorMsgs = []string{a.Text}
	}
	return status, nil
}

// Heartbeat learns where to report to. As the contract has it, the master with the higher epoch counts;
// an older one may still be heard.
func (b *Backend) Heartbeat(_ context.Context, info *backend.TMasterInfo) (*backend.THeartbeatResult_, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.onBeat != nil {
		if err := b.onBeat(info); err != nil {
			return nil, err
		}
	}
	if b.master == nil || info.Epoch >= b.master.Epoch {
		b.master = info
	}
	b.beats++
	epoch, version := b.epoch, "scripted"
	return &backend.THeartbeatResult_{
		Status:      &shared.TStatus{StatusCode: shared.TStatusCode_OK},
		BackendInfo: &backend.TBackendInfo{BePort: int32(b.BePort()), HTTPPort: 0, BeStartTime: &epoch, Version: &version}, //nolint:gosec // a port
	}, nil
}

// OnHeartbeat has a function see each heartbeat; one that it returns an error for fails.
func (b *Backend) OnHeartbeat(f func(*backend.TMasterInfo) error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.onBeat = f
}

// BePort is the port that takes dispatches.
func (b *Backend) BePort() int { return port(b.be) }

// HeartbeatPort is the port that takes heartbeats.
func (b *Backend) HeartbeatPort() int { return port(b.beat) }

func port(s *thriftnet.Server) int {
	_, p, _ := net.SplitHostPort(s.Addr().String())
	n, _ := strconv.Atoi(p) // the address of a listener has a port
	return n
}

// OnSubmit replaces the script.
func (b *Backend) OnSubmit(script Script) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.script = script
}

// Always has every call answered the same.
func (b *Backend) Always(a Answer) {
	b.OnSubmit(func(*backend.TLanceIndexJobDispatch) Answer { return a })
}

// Restart makes the backend look like another process at the same address.
func (b *Backend) Restart() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.epoch++
}

// SentTo returns the dispatches of a job.
func (b *Backend) SentTo(id int64) []*backend.TLanceIndexJobDispatch {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]*backend.TLanceIndexJobDispatch(nil), b.sends[id]...)
}

// AllSends returns all dispatches by job.
func (b *Backend) AllSends() map[int64][]*backend.TLanceIndexJobDispatch {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.sends)
}

// Master is what the newest heartbeat told, or nil, and how many there were.
func (b *Backend) Master() (info *backend.TMasterInfo, beats int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.master, b.beats
}

// ReportTo is the report address of the newest heartbeat, or "".
func (b *Backend) ReportTo() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.master == nil {
		return ""
	}
	at := b.master.NetworkAddress
	return net.JoinHostPort(at.Hostname, strconv.Itoa(int(at.Port)))
}
