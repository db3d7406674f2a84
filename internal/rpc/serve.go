package rpc

import (
	"context"
	"fmt"
	"time"

	"github.com/lancemaster/lancemaster/gen-go/admin"
	"github.com/lancemaster/lancemaster/internal/job"
	"github.com/lancemaster/lancemaster/internal/thriftnet"
)

// leaderWait is how long a request waits for a leader. It covers a node's start and most elections,
// so that a client which comes a moment early is served.
const leaderWait = 5 * time.Second

// Pauses between two looks for a leader, after one that was there could not be reached or did not
// lead any more.
const (
	leadPause    = 50 * time.Millisecond
	maxLeadPause = 500 * time.Millisecond
)

// request is what every request of the service has.
type request[T any] interface {
	*T
	GetCtx() *admin.TRequestContext
}

// remote is the service at the leader, and elsewhere one method of it.
type (
	remote              = admin.AdminServiceClient
	elsewhere[R, A any] func(*remote, context.Context, R) (A, error)
)

// call is one request under way.
type call struct {
	context.Context
	actor string
	stale bool
}

func (a *Admin) header(c call) job.Header {
	return job.Header{At: millis(a.cfg.Clock), Actor: c.actor}
}

// serve does what is the same for every method: a nil request, who calls and whether they may, the
// leader, the barrier, the typed error, the metrics.
func serve[T any, R request[T], A any](ctx context.Context, a *Admin, name string, req R, there elsewhere[R, A], here func(call) (A, error)) (answer A, err error) {
	began := a.cfg.Clock.Now()
	m, code := methods[name], "OK"
	defer func() {
		a.cfg.Metrics.answered(serviceAdmin, name, code, a.cfg.Clock.Now().Sub(began))
	}()
	if req == nil {
		err = invalid("the request", "is missing")
	} else if c, p, refused := a.admit(ctx, m, req.GetCtx()); refused != nil {
		err = refused
	} else {
		err = a.route(c, m, func() (err error) {
			answer, err = here(c)
			return err
		}, func(ctx context.Context) (err error) {
			if caller := req.GetCtx(); caller != nil {
				caller.Token = nil // it has done its work, and the principal goes along
			}
			answer, err = there(a.leaderService(p), ctx, req)
			return err
		})
	}
	if err == nil {
		return answer, nil
	}
	failure := a.failure(ctx, m, err)
	code = failure.Code.String()
	var none A
	return none, failure
}

// admit finds out who calls, and lets them call what their role allows.
func (a *Admin) admit(ctx context.Context, m method, caller *admin.TRequestContext) (call, Principal, error) {
	p, err := a.principal(ctx, caller)
	if err != nil {
		return call{}, p, err
	}
	if !p.Role.Includes(m.role) {
		return call{}, p, &job.Refusal{
			Code:    job.CodePermission,
			Message: fmt.Sprintf("%s needs the role %s, and %s has the role %s; nothing was changed", m.doing, m.role, p.actor(), p.Role),
			Next:    fmt.Sprintf("use a token or a certificate with the role %s or a higher one", m.role),
		}
	}
	c := call{Context: WithPrincipal(ctx, p), actor: p.actor(), stale: caller != nil && caller.GetStale()}
	if c.stale && m.access == writes {
		return call{}, p, invalid("stale", "is only for reads, and "+m.doing+" makes a change")
	}
	return c, p, nil
}

// route has a call served here or by the leader. It looks for a leader anew, as long as a request
// may wait for one, after each attempt that certainly did nothing for want of one.
func (a *Admin) route(c call, m method, here func() error, there func(context.Context) error) error {
	if m.access == local || c.stale {
		return here()
	}
	wait, end := untilDraining(c, a.cfg.Wait)
	defer end()
	var last error
	for pause := leadPause; ; pause = min(2*pause, maxLeadPause) {
		leader, err := a.cfg.Leadership.WaitLeader(wait)
		switch {
		case err != nil && last != nil:
			return last
		case err != nil:
			return a.leaderless()
		case leader.Self:
			last = a.lead(c, m, here)
		case forwarded(c) || a.cfg.Forward == nil:
			return a.notHere(leader)
		default:
			last = a.forward(c, m, leader, there)
		}
		if last == nil || !nothingDone(last) {
			return last
		}
		if !rest(wait, pause) {
			return last
		}
	}
}

// rest waits, and reports whether ctx still lasts.
func rest(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// lead serves a call on the leader.
func (a *Admin) lead(c call, m method, here func() error) error {
	if m.access == reads {
		if err := a.barrier(c); err != nil {
			return err
		}
	}
	if err := a.confirm(c); err != nil {
		return err
	}
	return here()
}

// leaderless is the answer of a master that knows no leader in time.
func (a *Admin) leaderless() error {
	status := a.cfg.Node.Status()
	why := status.WaitingFor
	if why == "" {
		why = status.NotReadyReason
	}
	if why != "" {
		why = " (" + cleanText(why, maxText) + ")"
	}
	return &job.Refusal{
		Code:    job.CodeNotLeader,
		Message: "this master does not lead and knows no leader" + why + "; nothing was changed",
		Next:    "ask the leader, or again shortly; `cluster status --stale` shows what a master knows by itself",
	}
}

// notHere is the answer of a master that may not forward.
func (a *Admin) notHere(leader Leader) error {
	return &job.Refusal{
		Code: job.CodeNotLeader, Message: fmt.Sprintf("this master does not lead, %s does; nothing was changed", cleanText(leader.NodeID, maxNodeName)),
		Next: "ask the leader, or again shortly",
	}
}

// pollContext ends what only waits when there is nobody left to answer, or no time.
func pollContext(ctx context.Context) (context.Context, func()) {
	waiting, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-thriftnet.Draining(ctx):
		case <-thriftnet.Gone(ctx):
		case <-waiting.Done():
		}
		cancel()
	}()
	return waiting, func() { cancel(); <-done }
}
