package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/lancemaster/lancemaster/internal/job"
	"github.com/lancemaster/lancemaster/internal/peer"
	"github.com/lancemaster/lancemaster/internal/raftnode"
)

// The methods that masters call of each other.
const (
	methodStatus = "status"
	methodForm   = "form"
	methodJoin   = "join"
	methodRemove = "remove-member"
)

const (
	// verbTime bounds one change of the membership, the waits for other masters included.
	verbTime = 30 * time.Second
	// askTime bounds one question of a change to another master, which writes to its disk.
	askTime = 2 * pollTimeout
)

// Handlers serves what other masters ask. get returns nil while the node is being made.
func Handlers(get func() *Cluster) map[string]peer.Handler {
	type handler func(*Cluster, context.Context, peer.Identity, []byte) ([]byte, error)
	bind := func(h handler) func(context.Context, peer.Identity, []byte) ([]byte, error) {
		return func(ctx context.Context, from peer.Identity, payload []byte) ([]byte, error) {
			c := get()
			if c == nil || !c.isStarted() {
				return nil, errStarting
			}
			return h(c, ctx, from, payload)
		}
	}
	return map[string]peer.Handler{
		methodStatus: {Strangers: true, Timeout: pollTimeout, Do: bind((*Cluster).onStatus)},
		methodForm:   {Strangers: true, Timeout: askTime, Do: bind((*Cluster).onForm)},
		methodJoin:   {Strangers: true, Timeout: askTime, Do: bind((*Cluster).onJoin)},
		methodRemove: {Timeout: verbTime, Do: bind((*Cluster).onRemove)},
	}
}

func (c *Cluster) isStarted() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.caller != nil
}

func (c *Cluster) onStatus(_ context.Context, from peer.Identity, _ []byte) ([]byte, error) {
	s := c.status()
	s.Refuses = c.check(from)
	return json.Marshal(s)
}

// one makes this leader's changes of the membership come one after the other, each with a bound.
func (c *Cluster) one(ctx context.Context) (context.Context, func(), error) {
	ctx, cancel := context.WithTimeout(ctx, verbTime)
	select {
	case c.verbs <- struct{}{}:
	case <-ctx.Done():
		cancel()
		return nil, nil, fmt.Errorf("%w: another change of the membership has not ended yet", job.ErrNotAppended)
	}
	if _, leads := c.cfg.Raft.Term(); !leads {
		<-c.verbs
		cancel()
		return nil, nil, fmt.Errorf("%w: %w", job.ErrNotAppended, raftnode.ErrNotLeader)
	}
	return ctx, func() { <-c.verbs; cancel() }, nil
}

func refuse(code job.Code, message, next string) *job.Refusal {
	return &job.Refusal{Code: code, Message: message, Next: next}
}

// journalError puts an error of a membership change into the journal's terms.
func journalError(err error) error {
	if errors.Is(err, raftnode.ErrNotLeader) || errors.Is(err, raftnode.ErrNotAppended) {
		return fmt.Errorf("%w: %w", job.ErrNotAppended, err)
	}
	return err
}

// poll waits until something that tells nobody when it changes holds.
func poll(ctx context.Context, holds func() bool) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}
