package dispatch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lancemaster/lancemaster/internal/job"
)

// attempt takes one job through the send protocol. It runs in a goroutine of its
// own; what it may touch of the run is guarded.
type attempt struct {
	run     *run
	rec     *job.Record // PENDING, as the round read it
	backend *job.Backend
	epoch   int64
	options map[string]string

	began time.Duration // since boot, right before MarkRunning was proposed
}

// protocol is the send protocol, in the order that the promise rests on: the whole request
// is built and checked; MarkRunning is journaled; the connection is made; all of
// it is checked again; the latch is taken; the call is written. Whatever fails
// before the latch is taken closes it.
func (a *attempt) protocol() {
	r := a.run
	defer r.attempted(a.rec.ID)
	invocation, ok := a.prepare()
	if !ok {
		r.release(a.rec.ID, false)
		return
	}
	e, ok := r.enter(a, invocation)
	if !ok {
		r.release(a.rec.ID, false)
		return
	}
	defer r.d.cfg.Sends.leave(e)
	if !a.markRunning(e, invocation) {
		return
	}
	how, c := a.send(e, invocation)
	e.latch.close() // nothing is written after this, whichever way send ended
	a.count(how, c)
	r.d.cfg.Sends.end(e, false, c)
	if c != nil {
		r.conclude(r.sends, e, true)
	}
}

// attempted lets the rounds look at a job again whose attempt is over.
func (r *run) attempted(id job.ID) {
	r.mu.Lock()
	delete(r.attempting, id)
	r.mu.Unlock()
	r.wakeUp()
}

// prepare builds the invocation and checks its bounds. A job that is over them is
// rejected; one that cannot be prepared waits.
func (a *attempt) prepare() (*job.Invocation, bool) {
	r := a.run
	invocation, err := a.build()
	var over string
	if err == nil {
		over, err = overBounds(r.d.cfg.Sender, invocation)
	}
	if err != nil {
		a.fail(classUnprepared, err)
		return nil, false
	}
	if over == "" {
		return invocation, true
	}
	_, how, err := r.propose(r.rounds, job.RejectBeforeDispatch{
		Header: r.header(), Job: a.rec.ID, Expected: a.rec.Revision,
		Message: message("nothing was sent: " + over + "; change the catalog and submit again"),
	})
	if how == applied {
		a.count(classRejected, nil)
		return nil, false
	}
	a.fail(classRejected, fmt.Errorf("%s; rejecting it failed: %w", over, err))
	return nil, false
}

// fail sets the job back after an error of its own.
func (a *attempt) fail(how class, err error) {
	if a.run.rounds.Err() != nil {
		return
	}
	a.run.log.Warn("a job could not be sent; it stays PENDING", "job", a.rec.ID, "class", string(how), "error", err)
	a.run.d.metrics.dispatches.WithLabelValues(string(how)).Inc()
	a.run.setBack(a.rec.ID, err.Error())
}

func (a *attempt) count(how class, c *conclusion) {
	a.run.d.metrics.dispatches.WithLabelValues(string(how)).Inc()
	detail := ""
	if c != nil {
		detail = c.message
	}
	a.run.log.Info("an attempt to send a job has ended", "job", a.rec.ID, "backend", a.backend.ID,
		"class", string(how), "detail", detail)
}

// enter puts the send, its latch OPEN, into the process's table before the
// journal hears of it, so that whoever sees the job RUNNING finds the latch. It is
// false when the term is over.
func (r *run) enter(a *attempt, invocation *job.Invocation) (*send, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopping {
		return nil, false
	}
	e := &send{
		identity: job.Identity{
			Job: invocation.Job, Revision: invocation.DispatchRevision,
			InvocationID: invocation.InvocationID, ProcessEpoch: invocation.ProcessEpoch,
		},
		backend: a.backend.ID, term: r.term, proposedAt: time.Now(),
		duration: time.Duration(a.rec.Spec.ExecuteDeadline) * time.Millisecond,
	}
	return e, r.d.cfg.Sends.add(e)
}

// markRunning journals the permission to send. It is true only if the command was
// certainly applied and the record shows exactly this dispatch.
func (a *attempt) markRunning(e *send, invocation *job.Invocation) bool {
	r := a.run
	if err := a.hold(); err != nil {
		a.withdraw(e, err)
		return false
	}
	answer, how, err := r.propose(r.sends, job.MarkRunning{
		Header: r.header(), Job: a.rec.ID, Expected: a.rec.Revision, Backend: a.backend.ID,
		ProcessEpoch: a.epoch, InvocationID: invocation.InvocationID,
		SecretHash: secretHash(invocation), DeadlineAt: invocation.DeadlineAt,
	})
	switch how {
	case applied:
	case refused, notAppended:
		a.withdraw(e, err)
		return false
	case ambiguous:
		a.doubt(e, err)
		return false
	}
	if rec := answer.Job; rec == nil || rec.State != job.StateRunning || !sameDispatch(rec, e) {
		a.doubt(e, errors.New("the journal's answer does not show this dispatch"))
		return false
	}
	r.release(a.rec.ID, true)
	r.mu.Lock()
	st := r.remembered(a.rec.ID)
	st.failures, st.lastError = 0, ""
	r.mu.Unlock()
	return true
}

// hold says why the attempt must not begin after all, and starts the clock that
// its send window runs on.
func (a *attempt) hold() error {
	if !a.run.leads() {
		return errors.New("the leader's term ended")
	}
	if a.settings().DispatchPaused {
		return errors.New("the setting dispatch.paused is true")
	}
	var err error
	a.began, err = a.run.d.cfg.Clock.SinceBoot()
	return err
}

// withdraw ends an attempt whose MarkRunning was certainly not applied: the job
// is as PENDING as before, if it still is.
func (a *attempt) withdraw(e *send, err error) {
	e.latch.close()
	a.run.d.cfg.Sends.remove(e)
	a.run.release(a.rec.ID, false)
	if a.run.rounds.Err() != nil {
		return
	}
	a.run.d.metrics.dispatches.WithLabelValues(string(classLost)).Inc()
	a.run.log.Debug("a job was not marked running", "job", a.rec.ID, "error", err)
	a.run.setBack(a.rec.ID, err.Error())
}

// doubt ends an attempt whose MarkRunning may be applied: it never sends, and the
// rounds find out what became of it.
func (a *attempt) doubt(e *send, err error) {
	e.latch.close()
	c := notEnqueued("the journal's answer to MARK_RUNNING was lost")
	a.run.log.Warn("it is not known whether a job was marked running; it is not sent", "job", a.rec.ID, "error", err)
	a.run.d.metrics.dispatches.WithLabelValues(string(classAmbiguous)).Inc()
	a.run.d.cfg.Sends.end(e, true, c)
}

const calledOff = "the send was called off before anything was written"

// send makes the connection, checks everything again, takes the latch and writes.
func (a *attempt) send(e *send, invocation *job.Invocation) (class, *conclusion) {
	r := a.run
	window := a.window()
	if window <= 0 {
		return classClosed, notEnqueued("the journal took longer than dispatch.send_window")
	}
	dialing, cancel := context.WithTimeout(r.rounds, window)
	conn, err := r.d.cfg.Sender.Dial(dialing, a.backend.Address)
	late := dialing.Err() != nil
	cancel()
	if err != nil {
		r.couldNotReach(a.backend.ID) // before the slot is free again
	}
	switch {
	case err == nil:
	case !e.latch.close():
		return classClosed, notEnqueued(calledOff)
	case late:
		return classDialFailed, notEnqueued("backend %d could not be reached within dispatch.send_window", a.backend.ID)
	default:
		return classDialFailed, notEnqueued("backend %d could not be reached: %v", a.backend.ID, err)
	}
	defer conn.Close()
	r.d.cfg.Sends.reached(e, conn.RemoteAddr())
	writing, cancel := context.WithTimeout(r.sends, a.settings().RPCTimeout)
	defer cancel()
	// Nothing but the latch stands between the recheck and the write.
	if reason := a.recheck(e); reason != "" {
		return classClosed, notEnqueued("%s", reason)
	}
	if !e.latch.send() {
		return classClosed, notEnqueued(calledOff)
	}
	called := time.Now()
	reply, err := conn.Submit(writing, invocation)
	r.d.metrics.callDuration.Observe(time.Since(called).Seconds())
	if err != nil && writing.Err() != nil && r.sends.Err() == nil {
		err = errors.New("no answer within backend.rpc_timeout")
	}
	return a.classify(reply, err)
}

func (a *attempt) settings() job.Settings {
	var s job.Settings
	a.run.d.cfg.Reader.Read(func(live *job.Live) { s = live.Settings() })
	return s
}

// window returns what is left of the send window; nothing, when the clock cannot
// be read or ran backwards.
func (a *attempt) window() time.Duration {
	now, err := a.run.d.cfg.Clock.SinceBoot()
	if err != nil || now < a.began {
		return 0
	}
	return min(a.settings().SendWindow, job.MaxSendWindow) - (now - a.began)
}

// recheck says why the send must not go on; empty when it may. It runs after the
// connection is made: against a backend that does not check process epochs, only
// the short time from here to the write keeps the slot's proof true.
func (a *attempt) recheck(e *send) string {
	r := a.run
	if !r.leads() {
		return "the leader's term ended before anything was written"
	}
	rec, err := r.d.cfg.Reader.Job(a.rec.ID)
	switch {
	case err != nil:
		return "the job's record could not be read before anything was written"
	case rec == nil || !sameDispatch(rec, e):
		return "the job's record shows another dispatch"
	case rec.State != job.StateRunning:
		return fmt.Sprintf("the job became %s before anything was written", rec.State)
	case a.window() <= 0:
		return "dispatch.send_window passed before anything was written"
	default:
		return ""
	}
}

// classify says what an answer to a written call means.
func (a *attempt) classify(reply job.Reply, err error) (class, *conclusion) {
	switch {
	case errors.Is(err, job.ErrUnknownMethod):
		return classUnknownMethod, notEnqueued("backend %d answered UNKNOWN_METHOD", a.backend.ID)
	case err != nil && a.run.sends.Err() != nil:
		// The term's end cut the wait short. The job stays RUNNING: the next leader
		// accepts its report, and its deadline goes on.
		return classCut, nil
	case err != nil:
		return classUntrusted, untrusted("the answer of backend %d to the call: %v", a.backend.ID, err)
	}
	name, known := job.KnownStatus(reply.Status)
	switch {
	case !known:
		return classUntrusted, untrusted("backend %d answered the call with the unknown status %d", a.backend.ID, reply.Status)
	case reply.Status == job.StatusOK:
		return classAccepted, nil
	}
	text := name
	if len(reply.Messages) > 0 {
		text += ": " + reply.Messages[0]
	}
	return classRefused, notEnqueued("backend %d answered %s", a.backend.ID, text)
}
