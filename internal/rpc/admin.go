package rpc

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/lancemaster/lancemaster/gen-go/admin"
	"github.com/lancemaster/lancemaster/internal/job"
)

// AdminConfig is what the admin service stands on.
type AdminConfig struct {
	Journal       Journal
	State         State
	Leadership    Leadership
	Forward       Forwarder     // nil: this node forwards nothing, which is right for a cluster of one
	Authenticator Authenticator // nil: everybody may do everything
	Submitter     Submitter
	Releaser      Releaser
	Explainer     Explainer
	Inspector     Inspector
	Liveness      Liveness
	Node          Node
	Cluster       Cluster   // nil: this node has no cluster to manage
	Snapshots     Snapshots // nil: this node makes none
	Clock         Clock
	Logger        *slog.Logger
	Metrics       *Metrics
	Wait          time.Duration // how long a request waits for a leader; default 5 s
}

// Admin serves the admin service.
type Admin struct{ cfg AdminConfig }

var _ admin.AdminService = (*Admin)(nil)

// NewAdmin makes the handler of the admin service.
func NewAdmin(cfg AdminConfig) *Admin {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Wait <= 0 {
		cfg.Wait = leaderWait
	}
	return &Admin{cfg: cfg}
}

// Status describes this node, leader or not.
func (a *Admin) Status(ctx context.Context, req *admin.TListRequest) (*admin.TStatusResponse, error) {
	return serve(ctx, a, "status", req, (*remote).Status, func(call) (*admin.TStatusResponse, error) {
		return wireStatus(a.cfg.Node.Status()), nil
	})
}

// InspectDataset reads a dataset's newest version.
func (a *Admin) InspectDataset(ctx context.Context, req *admin.TInspectDatasetRequest) (*admin.TInspectDatasetResponse, error) {
	return serve(ctx, a, "inspectDataset", req, (*remote).InspectDataset, func(c call) (*admin.TInspectDatasetResponse, error) {
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
			return nil, inside(unreadable(c, in.DatasetURI, err))
		}
		return wireInspection(seen), nil
	})
}

// unreadable gives one answer for all that can stand where a dataset should on the master's own disk. What
// stands in its place is told to those only who may have the master read files as they like: others would
// learn of any path whether it is there, and what it is.
func unreadable(c call, uri string, err error) error {
	refusal, ok := job.AsRefusal(err)
	if !ok || refusal.Code != job.CodeDatasetMissing && refusal.Code != job.CodeDatasetUnreadable {
		return err
	}
	at, badURI := job.NormalizeLocator(uri)
	if p, known := PrincipalOf(c); known && p.Role.Includes(job.RoleOperate) || badURI != nil || !strings.HasPrefix(at, "file:") {
		return err
	}
	return &job.Refusal{
		Code: job.CodeDatasetMissing, Message: "no dataset can be read there on the disk of the leader",
		Next: "check the URI; whoever has the role operate is told what is in the way",
	}
}
