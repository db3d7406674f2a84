package app

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/lancemaster/lancemaster/internal/cluster"
	"github.com/lancemaster/lancemaster/internal/command"
	"github.com/lancemaster/lancemaster/internal/config"
	"github.com/lancemaster/lancemaster/internal/dispatch"
	"github.com/lancemaster/lancemaster/internal/job"
	"github.com/lancemaster/lancemaster/internal/peer"
	"github.com/lancemaster/lancemaster/internal/rpc"
	"github.com/lancemaster/lancemaster/internal/tlsconf"
)

// This file ties the node to the other masters: the connections, who belongs, and
// what followers forward.

// The methods that carry one Thrift message to the leader. They are several, so that
// many who wait for a job through one follower hold up neither reports nor changes:
// the calls to one master are bounded for each method.
const (
	forwardAdmin  = "forward"
	forwardPoll   = "forward-poll"
	forwardReport = "forward-report"
)

// methodFor says by which a message goes.
func methodFor(service string, message []byte) string {
	switch {
	case service == "report":
		return forwardReport
	case longPolls[calledBy(message)]:
		return forwardPoll
	default:
		return forwardAdmin
	}
}

// longPolls are the admin service's methods that wait for something to happen.
var longPolls = map[string]bool{"waitJob": true, "watchJobs": true}

// calledBy reads the method's name at the begin of a message in the strict binary
// protocol: version and kind, length, name.
func calledBy(message []byte) string {
	const head = 8
	if len(message) < head {
		return ""
	}
	n := binary.BigEndian.Uint32(message[4:])
	if uint64(n) > uint64(len(message)-head) {
		return ""
	}
	return string(message[head : head+int(n)])
}

// now reads the wall clock.
func (a *App) now() time.Time {
	if a.opts.WallOffset != nil {
		return time.Now().Add(a.opts.WallOffset())
	}
	return time.Now()
}

// sinceBoot makes a function a dispatch.Clock.
type sinceBoot func() (time.Duration, error)

func (s sinceBoot) SinceBoot() (time.Duration, error) { return s() }

func (a *App) bootClock() dispatch.Clock {
	if a.opts.SinceBoot == nil {
		return nil
	}
	return sinceBoot(a.opts.SinceBoot)
}

// listenToPeers opens the Raft port. Until the node knows its members it refuses
// whoever comes.
func (a *App) listenToPeers() (err error) {
	handlers := cluster.Handlers(a.known.Load)
	for _, method := range []string{forwardAdmin, forwardPoll, forwardReport} {
		handlers[method] = peer.Handler{Timeout: rpc.ForwardTimeout, Do: a.onForward}
	}
	var listener net.Listener
	if a.opts.Listen != nil {
		if listener, err = a.opts.Listen(context.Background(), "tcp", a.cfg.RaftListen); err != nil {
			return err
		}
	}
	serverTLS, clientTLS := a.certs.betweenMasters()
	a.endpoint, err = peer.Listen(peer.Config{
		Bind: a.cfg.RaftListen, Advertise: a.cfg.RaftAdvertise, Self: func() peer.Identity {
			if c := a.known.Load(); c != nil {
				return c.Identity()
			}
			return peer.Identity{NodeID: a.cfg.NodeID, InstanceID: a.identity.get().InstanceID}
		},
		Judge: func(kind peer.Kind, other peer.Identity) (bool, error) {
			if c := a.known.Load(); c != nil {
				return c.Judge(kind, other)
			}
			return false, errStarting
		},
		Handlers: handlers, Logger: a.log.With("part", "peer"), Registerer: a.registry,
		Dial: a.opts.Dial, Listener: listener,
		ServerTLS: serverTLS, ClientTLS: clientTLS, Holder: tlsconf.NodeOf, Recheck: a.certs.recheck(),
	})
	if err != nil {
		return err
	}
	a.onStop("connections to other masters", a.endpoint.Close)
	// Nobody was let in so far: the node does not know its members yet.
	return a.checkBound("raft.listen", a.endpoint.Bound(), a.cfg.RaftTLS == tlsMutual || a.cfg.TrustedNetwork)
}

var errStarting = &peer.Refusal{Code: peer.CodeStarting, Message: "this node is starting; try again shortly"}

func (a *App) memberAddress(id string) (string, bool) {
	if c := a.known.Load(); c != nil {
		return c.MemberAddress(id)
	}
	return "", false
}

// knowMembers makes what knows the other masters.
func (a *App) knowMembers() (err error) {
	var founders []cluster.Member
	if !a.cfg.Join {
		for _, m := range a.cfg.Members {
			founders = append(founders, cluster.Member(m))
		}
	}
	a.members, err = cluster.New(cluster.Config{
		NodeID: a.cfg.NodeID, InstanceID: a.identity.get().InstanceID, Address: a.endpoint.Addr(),
		Founders: founders, Join: a.cfg.Join, ClusterID: a.cfg.ClusterID,
		Version: config.BuildInfo().Version, MaxLevel: command.MaxLevel, LevelDefaults: job.LevelDefaults,
		AddressOf: func(id string) (string, bool) { return a.current.Load().MemberAddress(id) },
		Raft:      a.node, State: a.machine, Journal: a.journal, Disk: a.identity, Report: a.selfReport, Now: a.now,
		Logger: a.log.With("part", "cluster"), Registerer: a.registry,
	})
	if err != nil {
		return err
	}
	a.known.Store(a.members)
	a.onStop("membership", a.members.Stop)
	return nil
}

// selfReport is what this node tells other masters of itself.
func (a *App) selfReport() cluster.Report {
	a.mu.Lock()
	serving, stopping := a.manager != nil, a.stopped
	a.mu.Unlock()
	r := cluster.Report{Stopping: stopping}
	if !serving {
		r.NotReady = "the node is starting"
		return r
	}
	r.AdminAddress, r.ReportAddress, r.HTTPAddress = a.admin.Addr().String(), a.reportAddress(), a.http.Addr()
	r.Ready, r.NotReady = a.Ready()
	return r
}

// startMembers brings the node into its cluster.
func (a *App) startMembers(context.Context) error {
	return a.members.Start(a.endpoint, func(err error) { _ = a.fail(err) })
}

// handOver gives the leadership away before the node stops.
func (a *App) handOver(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, a.ShutdownTimeout()/2)
	defer cancel()
	if err := a.members.HandOver(ctx); err != nil {
		a.log.Warn("the leadership was not handed over; the others elect a leader when this one is gone", "error", err.Error())
	}
	return nil
}

// envelope goes before a forwarded Thrift message.
type envelope struct {
	Service   string        `json:"service"`
	Principal rpc.Principal `json:"principal"`
}

// toLeader forwards messages to the leader over the masters' own connections.
type toLeader struct{ a *App }

// Forward carries one message, once.
func (f toLeader) Forward(ctx context.Context, service string, as rpc.Principal, message []byte) ([]byte, error) {
	id, _ := f.a.node.Leader()
	if id == "" || id == f.a.cfg.NodeID {
		return nil, &rpc.ForwardError{Err: errors.New("no other leader is known")}
	}
	head, err := json.Marshal(envelope{service, as})
	if err != nil {
		return nil, &rpc.ForwardError{Err: err}
	}
	payload := binary.BigEndian.AppendUint32(nil, uint32(len(head))) //nolint:gosec // some hundred bytes
	payload = append(append(payload, head...), message...)
	ctx, end := f.whileLeading(ctx, id)
	defer end()
	address, _ := f.a.memberAddress(id)
	reply, _, err := f.a.endpoint.Call(ctx, id, address, methodFor(service, message), payload)
	if err != nil {
		return nil, &rpc.ForwardError{Sent: sent(err), Err: err}
	}
	return reply, nil
}

// whileLeading returns a context that ends when another leader than id is known and id
// has ceased to answer: one that hangs would otherwise keep its callers from the next
// for as long as they wait. One that answers may have handed over because it was asked
// to, as a leader does that is removed, and still be at work on the request.
func (f toLeader) whileLeading(ctx context.Context, id string) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(leaderPoll)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if now, _ := f.a.node.Leader(); now != "" && now != id && f.a.members.Silent(id) {
				cancel(fmt.Errorf("%s does not answer and leads no more, %s does", id, now))
				return
			}
		}
	}()
	return ctx, func() { cancel(nil); <-done }
}

// sent says whether a failed call may have reached its handler.
func sent(err error) bool {
	if call, ok := errors.AsType[*peer.CallError](err); ok {
		return call.Sent
	}
	_, refused := errors.AsType[*peer.Refusal](err)
	return !refused
}

// membershipOf shows the cluster to the admin service.
type membershipOf struct{ *cluster.Cluster }

func (m membershipOf) Members(ctx context.Context) (rpc.ClusterStatus, error) {
	o, err := m.Overview(ctx)
	if err != nil {
		return rpc.ClusterStatus{}, err
	}
	out := rpc.ClusterStatus{Voters: o.Voters, Quorum: o.Quorum, FailuresTolerated: o.Tolerated, Warnings: o.Warnings}
	for _, s := range o.Members {
		out.Members = append(out.Members, memberOf(s))
	}
	return out, nil
}

func (m membershipOf) AddMember(ctx context.Context, actor, nodeID, address string) (rpc.Member, error) {
	s, err := m.Cluster.AddMember(ctx, actor, nodeID, address)
	return memberOf(s), err
}

func (m membershipOf) ReplaceMember(ctx context.Context, actor, nodeID, address string) (rpc.Member, error) {
	s, err := m.Cluster.ReplaceMember(ctx, actor, nodeID, address)
	return memberOf(s), err
}

func memberOf(s cluster.MemberStatus) rpc.Member {
	m := rpc.Member{
		NodeID: s.NodeID, InstanceID: s.InstanceID, Address: s.Address, ConfiguredAddress: s.ConfiguredAddress,
		Voter: s.Voter, Leader: s.Leader, Self: s.Self, Reachable: s.Reachable, LastContact: s.LastHeard,
		AppliedIndex: s.Applied, Version: s.Version, Level: s.Level, MaxLevel: s.MaxLevel,
		AdminAddress: s.Report.AdminAddress, ReportAddress: s.Report.ReportAddress, HTTPAddress: s.Report.HTTPAddress,
		LastError: s.LastError, State: s.RaftState,
	}
	if s.LastHeard < 0 {
		m.LastContact = rpc.Never
	}
	if s.ClockDifference != nil { // the other way round: how far theirs is ahead
		ahead := -*s.ClockDifference
		m.ClockOffset = &ahead
	}
	return m
}

// onForward serves what a follower forwards.
func (a *App) onForward(ctx context.Context, _ peer.Identity, payload []byte) ([]byte, error) {
	handlers := a.forwarded.Load()
	if handlers == nil {
		return nil, errStarting
	}
	var e envelope
	if len(payload) < 4 {
		return nil, errors.New("the forwarded message is cut short")
	}
	n := binary.BigEndian.Uint32(payload)
	rest := payload[4:]
	if uint64(n) > uint64(len(rest)) || json.Unmarshal(rest[:n], &e) != nil {
		return nil, errors.New("the forwarded message cannot be read")
	}
	return handlers.Serve(ctx, e.Service, e.Principal, rest[n:])
}
