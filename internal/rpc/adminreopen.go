package rpc

import (
	"context"
	"fmt"
	"time"

	"github.com/lancemaster/lancemaster/gen-go/admin"
	"github.com/lancemaster/lancemaster/internal/job"
)

// ReopenCluster ends the quarantine that a restore or a recovery began.
func (a *Admin) ReopenCluster(ctx context.Context, req *admin.TReopenClusterRequest) (*admin.TReopenClusterResponse, error) {
	return serve(ctx, a, "reopenCluster", req, (*remote).ReopenCluster, func(c call) (*admin.TReopenClusterResponse, error) {
		var f fields
		note := f.optionalText("note", req.Note)
		if f.refusal != nil {
			return nil, f.refusal
		}
		if req.GetMastersStopped() && req.GetBackendsRestarted() {
			if err := a.wereRestarted(c); err != nil {
				return nil, err
			}
		}
		_, err := a.cfg.Journal.Propose(c, job.Reopen{
			Header: a.header(c), Note: note, MastersStopped: req.GetMastersStopped(), BackendsRestarted: req.GetBackendsRestarted(),
		})
		if err != nil {
			return nil, err
		}
		return &admin.TReopenClusterResponse{Node: wireStatus(a.cfg.Node.Status())}, nil
	})
}

// wereRestarted refuses the word that every backend was restarted where it is certainly not so: a backend
// answers as the very process that a job was sent to before the quarantine, in which nothing is sent. Two
// processes at one address never tell the same epoch. That an epoch is a time before the quarantine proves
// nothing: clocks differ, and the old masters may have been stopped long before the restore.
func (a *Admin) wereRestarted(c call) error {
	if err := a.barrier(c); err != nil {
		return err
	}
	var quarantined bool
	var backends []*job.Backend
	a.cfg.State.Read(func(v View) { quarantined, backends = v.Cluster().Quarantined, v.Backends() })
	if !quarantined {
		return nil // the journal says so
	}
	for _, b := range backends {
		live := a.cfg.Liveness.Backend(b.ID)
		if live.Unheard {
			return notHeard(b)
		}
		if !live.Alive {
			continue
		}
		rec, err := a.sentTo(b.ID, live.ProcessEpoch)
		if err != nil {
			return err
		}
		if rec != nil {
			return notRestarted(b, rec, live)
		}
	}
	return nil
}

// sentTo finds a job that was sent to a process of a backend, or nil: among all that still hold something, whose
// worker may live there, and among the newest of the others, which tell of the process too.
func (a *Admin) sentTo(backend job.BackendID, epoch int64) (*job.Record, error) {
	open := true
	for _, q := range []job.Query{{Backend: backend, Open: &open, Limit: job.MaxPageLimit}, {Backend: backend, Limit: job.MaxPageLimit}} {
		for {
			page, err := a.cfg.State.List(q)
			if err != nil {
				return nil, inside(err)
			}
			for _, rec := range page.Jobs {
				if rec.Dispatch.ProcessEpoch == epoch {
					return rec, nil
				}
			}
			if q.PageToken = page.Next; q.Open == nil || q.PageToken == "" {
				break
			}
		}
	}
	return nil, nil //nolint:nilnil // none is an answer
}

func notHeard(b *job.Backend) *job.Refusal {
	return &job.Refusal{
		Code: job.CodeTooEarly,
		Message: fmt.Sprintf("the cluster was not reopened: the leader has led for a moment only, and has not heard yet which process of backend %d, %s, answers, if any does",
			b.ID, b.Address.Host),
		Next: "wait a few seconds, see `lancemaster backend list -o wide`, and confirm again",
	}
}

func notRestarted(b *job.Backend, rec *job.Record, live BackendLiveness) *job.Refusal {
	return &job.Refusal{
		Code: job.CodeInvalid,
		Message: fmt.Sprintf("the cluster was not reopened: backend %d, %s, was not restarted: it answers as the process with the epoch %d (%s), to which job %d was sent before the quarantine",
			b.ID, b.Address.Host, live.ProcessEpoch, time.UnixMilli(live.ProcessEpoch).UTC().Format(time.RFC3339), rec.ID),
		Next: fmt.Sprintf("restart it, or stop it, and see that every other one was restarted; once `lancemaster backend list -o wide` shows backend %d with another epoch, or not alive, confirm again",
			b.ID),
	}
}
