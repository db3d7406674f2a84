package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"

	"github.com/lancemaster/lancemaster/internal/peer"
)

// A network that carries calls as internal/peer does, without connections.

func (n *node) caller() Caller {
	if n.endpoint != nil {
		return n.endpoint
	}
	return network{n}
}

// network carries calls as internal/peer does, without connections.
type network struct{ n *node }

func (c network) Recheck() {
	c.n.w.mu.Lock()
	defer c.n.w.mu.Unlock()
	c.n.rechecks++
}

func (c network) Call(ctx context.Context, id, address, method string, payload []byte) (reply []byte, other peer.Identity, err error) {
	if _, ok := ctx.Deadline(); !ok {
		c.n.w.t.Errorf("a call of %s without a bound", method)
	}
	to := c.n.w.reach(c.n, address)
	if to == nil {
		return nil, other, &peer.CallError{Err: fmt.Errorf("dial %s: connection refused", address)}
	}
	c.n.w.mu.Lock()
	hangs := to.hangs
	c.n.w.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return nil, other, &peer.CallError{Sent: true, Err: context.Cause(ctx)}
	}
	other, self := to.Identity(), c.n.Identity()
	if id != "" && to.id != id {
		return nil, other, &peer.Refusal{Code: peer.CodeWrongNode, Message: fmt.Sprintf("the address %s leads to node %s, not to node %s", address, to.id, id), ByOther: true}
	}
	handler := Handlers(func() *Cluster { return to.Cluster })[method]
	for _, side := range []struct {
		judge func(peer.Kind, peer.Identity) (bool, error)
		other peer.Identity
		by    bool
	}{{c.n.Judge, other, false}, {to.Judge, self, true}} {
		member, err := side.judge(peer.KindCall, side.other)
		if refusal, ok := errors.AsType[*peer.Refusal](err); ok {
			return nil, other, &peer.Refusal{Code: refusal.Code, Message: refusal.Message, ByOther: side.by}
		}
		if !member && !handler.Strangers {
			return nil, other, &peer.Refusal{Code: peer.CodeMembersOnly, Message: "for members only", ByOther: side.by}
		}
	}
	err = c.n.step("call "+method+" "+to.id, func() error {
		var err error
		reply, err = handler.Do(ctx, self, payload)
		return err
	})
	if refusal, ok := errors.AsType[*peer.Refusal](err); ok {
		return nil, other, refusal
	}
	if lost, ok := errors.AsType[*peer.CallError](err); ok {
		return nil, other, lost
	}
	if err != nil {
		return nil, other, &peer.RemoteError{Message: err.Error()}
	}
	return reply, to.Identity(), nil
}

// link returns the node that a Raft connection from n to id reaches, if both sides allow it.
func (w *world) link(n *node, id string) *node {
	address, ok := n.MemberAddress(id)
	if !ok {
		return nil
	}
	to := w.reach(n, address)
	if to == nil || to.id != id {
		return nil
	}
	w.mu.Lock()
	started := to.started
	w.mu.Unlock()
	if !started {
		return nil
	}
	if n.endpoint != nil {
		conn, err := n.endpoint.RaftStream().Dial(raft.ServerAddress(id+"@"+address), 5*time.Second)
		if err != nil {
			return nil
		}
		_ = conn.Close()
		return to
	}
	if member, err := n.Judge(peer.KindRaft, to.Identity()); err != nil || !member {
		return nil
	}
	if member, err := to.Judge(peer.KindRaft, n.Identity()); err != nil || !member {
		return nil
	}
	return to
}

// reach returns the machine at an address, if it is up.
func (w *world) reach(from *node, address string) *node {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, n := range w.nodes {
		if n.address == address && n.up && !w.cut[[2]string{from.id, n.id}] && !w.cut[[2]string{n.id, from.id}] {
			return n
		}
	}
	return nil
}
