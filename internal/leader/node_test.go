package leader_test

import (
	"context"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/lancemaster/lancemaster/internal/leader"
	"github.com/lancemaster/lancemaster/internal/raftnode"
)

// proposer is a service that journals, at its start and its stop.
type proposer struct {
	t    *testing.T
	node *raftnode.Node
}

func (*proposer) Name() string { return "proposer" }

func (p *proposer) Start(ctx context.Context, _ uint64) error {
	_, _, err := p.node.Propose(ctx, []byte("start"))
	return err
}

func (p *proposer) Stop() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if _, _, err := p.node.Propose(ctx, []byte("stop")); err != nil {
		p.t.Errorf("journaling while stopping: %v", err)
	}
}

// A real node carries a manager; a service may still journal when the manager is stopped.
func TestOnARealNode(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	fatal := func(err error) { t.Errorf("fatal: %v", err) }
	fsm := &raft.MockFSM{}
	node, err := raftnode.New(raftnode.Config{
		ID: "m1", Dir: t.TempDir(), BindAddress: "127.0.0.1:0", FSM: fsm, Fatal: fatal,
		HeartbeatTimeout: 100 * time.Millisecond, ElectionTimeout: 100 * time.Millisecond, LeaderLease: 100 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	manager, err := leader.New(leader.Config{
		Node: node, Services: []leader.Service{&proposer{t, node}}, StepDown: node.TransferLeadership, Fatal: fatal,
		OnTermStart: func(ctx context.Context, _ uint64) error {
			_, _, err := node.Propose(ctx, []byte("term"))
			return err
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := node.Bootstrap([]raftnode.Server{{ID: "m1", Address: node.Addr(), Voter: true}}); err != nil {
		t.Fatal(err)
	}
	if err := node.Start(); err != nil {
		t.Fatal(err)
	}
	manager.Start()
	term, err := manager.Wait(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if led, leads := node.Term(); !leads || led != term {
		t.Errorf("ready in term %d, leading term %d (%v)", term, led, leads)
	}
	if err := manager.Stop(ctx); err != nil {
		t.Error(err)
	}
	if err := node.Shutdown(ctx); err != nil {
		t.Error(err)
	}
	var applied string
	for _, command := range fsm.Logs() {
		applied += string(command) + " "
	}
	if applied != "term start stop " {
		t.Errorf("journaled %q", applied)
	}
}
