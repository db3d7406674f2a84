package rpc

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/lancemaster/lancemaster/gen-go/admin"
	"github.com/lancemaster/lancemaster/internal/job"
	"github.com/lancemaster/lancemaster/internal/thriftnet"
)

// errBarrier and errInside mark errors after which nothing can have been changed.
var (
	errBarrier = errors.New("the state could not be made current")
	errInside  = errors.New("reading failed")
	// errNobodyAsked: it could not be found out who calls.
	errNobodyAsked = errors.New("the caller could not be authenticated")
)

func (a *Admin) barrier(ctx context.Context) error {
	if err := a.cfg.Leadership.ReadBarrier(ctx); err != nil {
		return fmt.Errorf("%w: %w", errBarrier, err)
	}
	return nil
}

func inside(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", errInside, err)
}

// failure makes the typed error of a failed request. What is not a refusal shows nothing of the
// inside: it is logged with an id, and the id is told.
func (a *Admin) failure(ctx context.Context, m method, err error) *admin.TAdminError {
	if told, ok := errors.AsType[*admin.TAdminError](err); ok {
		return told // the leader's, or one that is made already
	}
	if f, ok := errors.AsType[*unansweredError](err); ok {
		return a.notForwarded(ctx, m, f)
	}
	if refusal, ok := job.AsRefusal(err); ok {
		return a.refused(refusal)
	}
	switch {
	case errors.Is(err, errNobodyAsked):
		a.logFailure(ctx, m, err, "")
		return a.typed(job.CodeUnavailable, "this master cannot tell now who calls; nothing was changed", "try again shortly")
	case errors.Is(err, ErrNotLeader) && (errors.Is(err, job.ErrNotAppended) || errors.Is(err, errBarrier)):
		return a.typed(job.CodeNotLeader, "this master does not lead; nothing was changed", "ask the leader, or again shortly")
	case errors.Is(err, job.ErrNotAppended):
		a.logFailure(ctx, m, err, "")
		return a.typed(job.CodeUnavailable, "the cluster cannot take changes now; nothing was changed", "try again shortly")
	case errors.Is(err, errBarrier) && ctx.Err() != nil:
		return a.typed(job.CodeTimeout, "the state could not be made current in time; nothing was changed", "try again; if it lasts, look at the health of the masters")
	case errors.Is(err, errBarrier):
		a.logFailure(ctx, m, err, "")
		return a.typed(job.CodeUnavailable, "this master cannot tell now whether its state is current; nothing was changed", "try again shortly")
	}
	id := failureID()
	a.logFailure(ctx, m, err, id)
	if m.access == writes && !errors.Is(err, errInside) {
		return a.typed(job.CodeOutcomeUnknown, "it is not known whether this was done: the answer of the journal was lost (error "+id+")", m.lost)
	}
	return a.typed(job.CodeInternal, "internal error "+id, "look for this id in the master's log")
}

// notForwarded is the answer to a call that the leader did not answer.
func (a *Admin) notForwarded(ctx context.Context, m method, f *unansweredError) *admin.TAdminError {
	leader := cleanText(f.leader, maxNodeName)
	if f.unsent {
		a.logFailure(ctx, m, f, "")
		return a.typed(job.CodeUnavailable, "the leader, "+leader+", could not be reached from this master; nothing was changed", "try again shortly, or ask the leader")
	}
	if m.access != writes {
		if draining(ctx) {
			return a.typed(job.CodeUnavailable, "this master is stopping", "ask another one")
		}
		a.logFailure(ctx, m, f, "")
		return a.typed(job.CodeUnavailable, "the answer of the leader, "+leader+", was lost", "ask again")
	}
	id := failureID()
	a.logFailure(ctx, m, f, id)
	return a.typed(job.CodeOutcomeUnknown, "it is not known whether this was done: the answer of the leader, "+leader+", was lost (error "+id+")", m.lost)
}

// notAuthenticated is the answer to a caller that is not known.
func notAuthenticated(err error) error {
	if _, ok := job.AsRefusal(err); ok {
		return err
	}
	return fmt.Errorf("%w: %w", errNobodyAsked, err)
}

func (a *Admin) logFailure(ctx context.Context, m method, err error, id string) {
	a.cfg.Logger.Error("an admin request failed", "method", m.name, "id", id, "peer", thriftnet.Peer(ctx), "error", err.Error())
}

func failureID() string {
	var b [6]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

func (a *Admin) refused(r *job.Refusal) *admin.TAdminError {
	e := a.typed(r.Code, r.Message, r.Next)
	if r.Holder != 0 {
		id := int64(r.Holder)
		e.HolderJobID = &id
	}
	if r.Present != nil {
		e.Present = a.wireJob(r.Present)
	}
	return e
}

func (a *Admin) typed(code job.Code, message, next string) *admin.TAdminError {
	e := &admin.TAdminError{Code: admin.TAdminErrorCode(code), Message: message, NextStep: optional(next)}
	if code == job.CodeNotLeader {
		e.LeaderAddress = optional(a.cfg.Node.Status().LeaderAdminAddress)
	}
	return e
}
