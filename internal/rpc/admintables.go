package rpc

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/lancemaster/lancemaster/gen-go/admin"
	"github.com/lancemaster/lancemaster/internal/job"
)

// PutCatalog creates or changes a catalog.
func (a *Admin) PutCatalog(ctx context.Context, req *admin.TPutCatalogRequest) (*admin.TCatalog, error) {
	return serve(ctx, a, "putCatalog", req, (*remote).PutCatalog, func(c call) (*admin.TCatalog, error) {
		catalog, expected, refusal := catalogOf(req)
		if refusal != nil {
			return nil, refusal
		}
		answer, err := a.cfg.Journal.Propose(c, job.PutCatalog{Header: a.header(c), Expected: expected, Catalog: catalog})
		if err != nil {
			return nil, err
		}
		return a.wireCatalog(answer.Catalog), nil
	})
}

func catalogOf(req *admin.TPutCatalogRequest) (job.Catalog, int64, *job.Refusal) {
	var f fields
	c := job.Catalog{Name: f.text("name", req.Name), Store: f.optionalText("store", req.Store), Refresher: job.Refresher{Kind: job.RefresherNone}}
	switch {
	case req.ExpectedRevision == nil:
		f.refuse("expected_revision", "is missing; 0 creates, and a change gives the revision it was made from")
	case *req.ExpectedRevision < 0:
		f.refuse("expected_revision", "is negative")
	}
	for _, o := range req.Options {
		if (o.Value == nil) == (o.Ref == nil) {
			f.refuse("a storage option", "must have either a value or a ref")
		}
		c.Options = append(c.Options, job.Option{
			Key: f.optionalText("a storage option's key", &o.Key), Value: f.optionalText("a storage option's value", o.Value),
			Ref: f.optionalText("a storage option's ref", o.Ref),
		})
	}
	slices.SortFunc(c.Options, func(x, y job.Option) int { return strings.Compare(x.Key, y.Key) })
	if r := req.Refresher; r != nil {
		c.Refresher = job.Refresher{
			Kind: job.RefresherKind(f.optionalText("refresher.kind", &r.Kind)), URL: f.optionalText("refresher.url", r.URL),
			User: f.optionalText("refresher.user", r.User), PasswordRef: f.optionalText("refresher.password_ref", r.PasswordRef),
			CARef: f.optionalText("refresher.ca_ref", r.CaRef), TLS: r.GetTLS(), TimeoutMS: r.GetTimeoutMs(),
		}
		for i := range r.Frontends {
			c.Refresher.Frontends = append(c.Refresher.Frontends, f.optionalText("a frontend", &r.Frontends[i]))
		}
	}
	return c, req.GetExpectedRevision(), f.refusal
}

// GetCatalog returns a catalog.
func (a *Admin) GetCatalog(ctx context.Context, req *admin.TGetCatalogRequest) (*admin.TCatalog, error) {
	return serve(ctx, a, "getCatalog", req, (*remote).GetCatalog, func(call) (*admin.TCatalog, error) {
		var f fields
		name := f.text("name", req.Name)
		if f.refusal != nil {
			return nil, f.refusal
		}
		var answer *admin.TCatalog
		a.cfg.State.Read(func(v View) {
			if c := v.Catalog(name); c != nil {
				answer = wireCatalog(v, c)
			}
		})
		if answer == nil {
			return nil, &job.Refusal{Code: job.CodeNotFound, Message: fmt.Sprintf("there is no catalog %q", shown(name)), Next: "list them with: lancemaster catalog list"}
		}
		return answer, nil
	})
}

// ListCatalogs returns every catalog, by name.
func (a *Admin) ListCatalogs(ctx context.Context, req *admin.TListRequest) (*admin.TListCatalogsResponse, error) {
	return serve(ctx, a, "listCatalogs", req, (*remote).ListCatalogs, func(call) (*admin.TListCatalogsResponse, error) {
		answer := &admin.TListCatalogsResponse{Catalogs: []*admin.TCatalog{}}
		a.cfg.State.Read(func(v View) {
			for _, c := range v.Catalogs() {
				answer.Catalogs = append(answer.Catalogs, wireCatalog(v, c))
			}
		})
		return answer, nil
	})
}

// RemoveCatalog removes a catalog that no open job uses.
func (a *Admin) RemoveCatalog(ctx context.Context, req *admin.TGetCatalogRequest) (*admin.TRemoveResponse, error) {
	return serve(ctx, a, "removeCatalog", req, (*remote).RemoveCatalog, func(c call) (*admin.TRemoveResponse, error) {
		var f fields
		name := f.text("name", req.Name)
		if f.refusal != nil {
			return nil, f.refusal
		}
		_, err := a.cfg.Journal.Propose(c, job.RemoveCatalog{Header: a.header(c), Catalog: name})
		return &admin.TRemoveResponse{}, err
	})
}

// AddBackend registers a backend.
func (a *Admin) AddBackend(ctx context.Context, req *admin.TAddBackendRequest) (*admin.TBackend, error) {
	return serve(ctx, a, "addBackend", req, (*remote).AddBackend, func(c call) (*admin.TBackend, error) {
		var f fields
		cmd := job.AddBackend{Header: a.header(c), Address: job.Address{
			Host: f.text("host", req.Host), BePort: f.port("be_port", req.BePort), HeartbeatPort: f.port("heartbeat_port", req.HeartbeatPort),
		}}
		for _, l := range req.Labels {
			cmd.Labels = append(cmd.Labels, job.Label{
				Key: f.optionalText("a label's key", &l.Key), Value: f.optionalText("a label's value", &l.Value),
			})
		}
		slices.SortFunc(cmd.Labels, func(x, y job.Label) int { return strings.Compare(x.Key, y.Key) })
		if f.refusal != nil {
			return nil, f.refusal
		}
		answer, err := a.cfg.Journal.Propose(c, cmd)
		if err != nil {
			return nil, err
		}
		return a.wireBackend(answer.Backend), nil
	})
}

// ListBackends returns every backend, by id, as this leader's heartbeats see it.
func (a *Admin) ListBackends(ctx context.Context, req *admin.TListRequest) (*admin.TListBackendsResponse, error) {
	return serve(ctx, a, "listBackends", req, (*remote).ListBackends, func(call) (*admin.TListBackendsResponse, error) {
		answer := &admin.TListBackendsResponse{Backends: []*admin.TBackend{}}
		a.cfg.State.Read(func(v View) {
			for _, b := range v.Backends() {
				answer.Backends = append(answer.Backends, wireBackend(b, v.SlotsHeld(b.ID)))
			}
		})
		for _, b := range answer.Backends {
			a.addLiveness(b)
		}
		return answer, nil
	})
}

// RemoveBackend forgets a backend that holds no slot.
func (a *Admin) RemoveBackend(ctx context.Context, req *admin.TBackendRequest) (*admin.TRemoveResponse, error) {
	return serve(ctx, a, "removeBackend", req, (*remote).RemoveBackend, func(c call) (*admin.TRemoveResponse, error) {
		var f fields
		id := f.positive("backend_id", req.BackendID)
		if f.refusal != nil {
			return nil, f.refusal
		}
		_, err := a.cfg.Journal.Propose(c, job.RemoveBackend{Header: a.header(c), Backend: job.BackendID(id)})
		return &admin.TRemoveResponse{}, err
	})
}

// DrainBackend keeps new jobs from a backend.
func (a *Admin) DrainBackend(ctx context.Context, req *admin.TBackendRequest) (*admin.TBackend, error) {
	return a.setBackendState(ctx, "drainBackend", req, (*remote).DrainBackend, job.BackendDraining)
}

// UndrainBackend lets a backend take jobs again.
func (a *Admin) UndrainBackend(ctx context.Context, req *admin.TBackendRequest) (*admin.TBackend, error) {
	return a.setBackendState(ctx, "undrainBackend", req, (*remote).UndrainBackend, job.BackendActive)
}

func (a *Admin) setBackendState(ctx context.Context, name string, req *admin.TBackendRequest, there elsewhere[*admin.TBackendRequest, *admin.TBackend],
	to job.BackendState,
) (*admin.TBackend, error) {
	return serve(ctx, a, name, req, there, func(c call) (*admin.TBackend, error) {
		var f fields
		id := f.positive("backend_id", req.BackendID)
		if f.refusal != nil {
			return nil, f.refusal
		}
		answer, err := a.cfg.Journal.Propose(c, job.SetBackendState{Header: a.header(c), Backend: job.BackendID(id), State: to})
		if err != nil {
			return nil, err
		}
		return a.wireBackend(answer.Backend), nil
	})
}
