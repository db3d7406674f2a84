package peer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// Endpoint is one node's end of all connections between masters. Its methods may be called from
// several goroutines.
type Endpoint struct {
	cfg       Config
	listener  net.Listener
	advertise address
	metrics   *metrics
	told      *told
	stream    *raftStream
	pool      *pool

	base     context.Context // of every handler and dial; ended when Close begins
	cut      context.CancelFunc
	stopping chan struct{} // closed when Close begins
	ended    chan struct{} // closed when the last goroutine has ended
	running  sync.WaitGroup

	identifying sync.Mutex // held while an incoming connection takes its room

	mu     sync.Mutex
	closed bool
	links  map[*link]struct{}
}

// Listen binds the address and serves calls at once. Raft's connections wait for the stream's Accept.
// The caller ends the endpoint with Close.
func Listen(cfg Config) (*Endpoint, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	base, cut := context.WithCancel(context.Background())
	listener, advertise, err := cfg.listen(base)
	if err != nil {
		cut()
		return nil, err
	}
	e := &Endpoint{
		cfg: cfg, listener: listener, advertise: advertise, told: newTold(cfg.Logger),
		base: base, cut: cut, stopping: make(chan struct{}), ended: make(chan struct{}),
		links: make(map[*link]struct{}),
	}
	e.stream, e.pool = newRaftStream(e), newPool(e)
	if e.metrics, err = newMetrics(e, cfg.Registerer); err != nil {
		cut()
		return nil, errors.Join(fmt.Errorf("register the metrics of the Raft port: %w", err), listener.Close())
	}
	e.running.Go(e.accept)
	return e, nil
}

// Addr returns the address under which other nodes reach this one.
func (e *Endpoint) Addr() string { return string(e.advertise) }

// Bound returns the address listened on.
func (e *Endpoint) Bound() net.Addr { return e.listener.Addr() }

// RaftStream returns the stream of Raft's connections, always the same. Its Dial takes
// "NODEID@host:port" and refuses another node than that one; of a plain host:port it only asks Judge.
// Its Close closes every Raft connection and takes no more; calls go on.
func (e *Endpoint) RaftStream() raft.StreamLayer { return e.stream }

// Recheck asks Judge again about each connection, and Config.Recheck about its certificate, and closes
// those that are no longer accepted. To be called after the members have changed.
func (e *Endpoint) Recheck() {
	for _, l := range e.snapshot() {
		l.mu.Lock()
		kind, other, state := l.kind, l.other, l.class
		l.mu.Unlock()
		if state == unidentified {
			continue
		}
		if l.outlived() != nil {
			l.kill()
			continue
		}
		if _, refusal := e.judge(kind, other); refusal != nil {
			e.refused(kind, other.NodeID, l.remote(), refusal)
			l.kill()
		}
	}
}

// snapshot returns the connections there are.
func (e *Endpoint) snapshot() []*link {
	e.mu.Lock()
	defer e.mu.Unlock()
	links := make([]*link, 0, len(e.links))
	for l := range e.links {
		links = append(links, l)
	}
	return links
}

// judge asks Judge, and gives what it says one form.
func (e *Endpoint) judge(kind Kind, other Identity) (member bool, refusal *Refusal) {
	member, err := e.cfg.Judge(kind, other)
	switch {
	case err == nil && (member || kind == KindCall):
		return member, nil
	case err == nil:
		return false, refuse(CodeMembersOnly, "node %s is not a member of this cluster", other.NodeID)
	case errors.As(err, &refusal):
		return false, refusal
	default:
		return false, refuse(CodeRefused, "%v", err)
	}
}

// refused counts a refusal of a connection and logs it, unless that has been said already.
func (e *Endpoint) refused(kind Kind, node, remote string, refusal *Refusal) {
	if kind != KindRaft && kind != KindCall {
		kind = "" // of a later version, or made up
	}
	e.metrics.refused(refusal)
	e.told.refusal(kind, node, remote, refusal)
}

// Close ends the listener, the calls out, Raft's connections, and the context of every handler at once,
// and lets the handlers answer until ctx ends. An error says that one has not ended even so.
func (e *Endpoint) Close(ctx context.Context) error {
	e.mu.Lock()
	first := !e.closed
	e.closed = true
	e.mu.Unlock()
	var fault error
	if first {
		close(e.stopping)
		e.cut()
		fault = e.listener.Close()
		// Nobody asks a stream what its end says; it has nothing to say.
		_ = e.stream.Close()
		e.pool.close()
		go func() {
			e.running.Wait()
			e.metrics.unregister()
			close(e.ended)
		}()
	}
	// A call of this side's own has nobody left to wait for it.
	e.killAll(func(l *link) bool { return !l.incoming || !l.isBusy() })
	select {
	case <-e.ended:
		return fault
	case <-ctx.Done():
	}
	e.killAll(func(*link) bool { return true })
	grace := time.NewTimer(closeGrace)
	defer grace.Stop()
	select {
	case <-e.ended:
		return fault
	case <-grace.C:
		return errors.Join(fault, fmt.Errorf("a handler of the Raft port did not end within %s of being told to", closeGrace))
	}
}

func (e *Endpoint) killAll(which func(*link) bool) {
	for _, l := range e.snapshot() {
		if which(l) {
			l.kill()
		}
	}
}

// isClosed says whether Close has begun.
func (e *Endpoint) isClosed() bool {
	select {
	case <-e.stopping:
		return true
	default:
		return false
	}
}

// Pauses between failed accepts.
const (
	firstPause = 5 * time.Millisecond
	lastPause  = time.Second
)

// accept runs until the listener is closed by Close.
func (e *Endpoint) accept() {
	pause := time.Duration(0)
	for {
		raw, err := e.listener.Accept()
		if err == nil {
			if pause > 0 {
				e.cfg.Logger.Info("accepting connections of other masters again")
				pause = 0
			}
			e.admit(raw)
			continue
		}
		if e.isClosed() {
			return
		}
		e.metrics.acceptErrors.Inc()
		if pause == 0 {
			e.cfg.Logger.Error("cannot accept connections of other masters; trying on", "error", err.Error())
		}
		if errors.Is(err, net.ErrClosed) {
			return // closed by nobody we know; logged above
		}
		pause = min(max(firstPause, pause*2), lastPause)
		// Descriptors may be what is missing, and a connection that says nothing has one.
		if _, silent := e.idlest(unidentified, ""); silent != nil {
			silent.kill()
			e.metrics.evicted.WithLabelValues(unidentified.String()).Inc()
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-e.stopping:
			timer.Stop()
			return
		}
	}
}

// admit takes a new connection in, at the cost of the one that has kept silent longest if there are
// too many of those.
func (e *Endpoint) admit(raw net.Conn) {
	e.makeRoom(unidentified, "", e.room(unidentified))
	l, err := e.track(raw, true)
	if err != nil {
		return
	}
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		l.kill()
		return
	}
	e.running.Add(1)
	e.mu.Unlock()
	go func() {
		defer e.running.Done()
		l.serve()
	}()
}
