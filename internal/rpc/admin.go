package rpc

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"

	"github.com/lancemaster/lancemaster/gen-go/admin"
	"github.com/lancemaster/lancemaster/internal/job"
	"github.com/lancemaster/lancemaster/internal/thriftnet"
)

// AdminConfig is what the admin service stands on.
type AdminConfig struct {
	Journal   Journal
	State     State
	Barrier   Barrier
	Submitter Submitter
	Releaser  Releaser
	Explainer Explainer
	Inspector Inspector
	Liveness  Liveness
	Node      Node
	Cluster   Cluster   // nil: this node has no cluster to manage
	Snapshots Snapshots // nil: this node makes none
	Clock     Clock
	Logger    *slog.Logger
	Metrics   *Metrics
}

// Admin serves the admin service.
type Admin struct{ cfg AdminConfig }

var _ admin.AdminService = (*Admin)(nil)

// NewAdmin makes the handler of the admin service.
func NewAdmin(cfg AdminConfig) *Admin {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Admin{cfg: cfg}
}

// access says what a method does with the journal.
type access uint8

const (
	local  access = iota // answers from this node alone
	reads                // wants a state no older than the request
	writes               // proposes
)

// method describes one method of the service.
type method struct {
	name   string
	access access
	// lost is what to do when nobody knows whether a command was applied.
	lost string
}

// What to do next after a lost answer.
const (
	lookAtJob      = "look at the job with `job show` and its history before asking again"
	repeatRelease  = "run it again: a job that is released already is answered with its record"
	lookAtSettings = "look at `settings history` before asking again"
	lookAtCatalogs = "look at `catalog list` before asking again"
	lookAtBackends = "look at `backend list` before asking again"
	lookAtCluster  = "look at `cluster status` before asking again"
	lookAtTokens   = "look at `token list` before asking again; a token whose text was lost is of no use: revoke it"
	repeatSubmit   = "run it again with the same --request-id: it is admitted once; without one, look at `job list` first"
)

// request is what every request of the service has.
type request[T any] interface {
	*T
	GetCtx() *admin.TRequestContext
}

// call is one request under way.
type call struct {
	context.Context
	actor string
}

// serve does what is the same for every method: a nil request, the caller's name, the barrier, the
// typed error, the metrics.
func serve[T any, R request[T], A any](ctx context.Context, a *Admin, m method, req R, do func(call) (A, error)) (answer A, err error) {
	began := a.cfg.Clock.Now()
	code := "OK"
	defer func() {
		a.cfg.Metrics.answered(serviceAdmin, m.name, code, a.cfg.Clock.Now().Sub(began))
	}()
	if req == nil {
		err = invalid("the request", "is missing")
	} else {
		c := call{Context: ctx, actor: actorOf(req.GetCtx())}
		if m.access == reads {
			err = a.barrier(ctx)
		}
		if err == nil {
			answer, err = do(c)
		}
	}
	if err == nil {
		return answer, nil
	}
	failure := a.failure(ctx, m, err)
	code = failure.Code.String()
	var none A
	return none, failure
}

// maxClientName bounds the name a caller gives itself.
const maxClientName = 128

// actorOf names the caller in the history. Nothing vouches for the name yet, and the actor says so.
func actorOf(c *admin.TRequestContext) string {
	name := ""
	if c != nil {
		name = cleanText(c.GetClientName(), maxClientName)
	}
	if name == "" {
		name = "anonymous"
	}
	return "unverified:" + name
}

func (a *Admin) header(c call) job.Header {
	return job.Header{At: millis(a.cfg.Clock), Actor: c.actor}
}

// errBarrier and errInside mark errors after which nothing can have been changed.
var (
	errBarrier = errors.New("the state could not be made current")
	errInside  = errors.New("reading failed")
)

func (a *Admin) barrier(ctx context.Context) error {
	if err := a.cfg.Barrier.ReadBarrier(ctx); err != nil {
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
	if refusal, ok := job.AsRefusal(err); ok {
		return a.refused(refusal)
	}
	switch {
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

// Status describes this node, leader or not.
func (a *Admin) Status(ctx context.Context, req *admin.TListRequest) (*admin.TStatusResponse, error) {
	return serve(ctx, a, method{name: "status", access: local}, req, func(call) (*admin.TStatusResponse, error) {
		return wireStatus(a.cfg.Node.Status()), nil
	})
}

// InspectDataset reads a dataset's newest version.
func (a *Admin) InspectDataset(ctx context.Context, req *admin.TInspectDatasetRequest) (*admin.TInspectDatasetResponse, error) {
	return serve(ctx, a, method{name: "inspectDataset", access: reads}, req, func(c call) (*admin.TInspectDatasetResponse, error) {
		var f fields
		in := InspectRequest{
			DatasetURI: f.text("dataset_uri", req.DatasetURI), Column: f.optionalText("column", req.Column),
			Catalog: f.optionalText("catalog", req.Catalog),
		}
		if f.refusal != nil {
			return nil, f.refusal
		}
		seen, err := a.cfg.Inspector.Inspect(c, in)
		if err != nil {
			return nil, inside(err)
		}
		return wireInspection(seen), nil
	})
}
