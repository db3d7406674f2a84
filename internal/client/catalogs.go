package client

import (
	"context"

	"github.com/lancemaster/lancemaster/gen-go/admin"
)

// Catalog is a place where datasets live and how to reach it.
type Catalog struct {
	Name           string          `json:"name"`
	Store          string          `json:"store,omitempty"` // empty: derived from the endpoint option, else the scheme
	Options        []StorageOption `json:"options"`
	Refresher      Refresher       `json:"refresher"`
	Revision       int64           `json:"revision"`
	CreatedAt      Time            `json:"created_at,omitzero"`
	UpdatedAt      Time            `json:"updated_at,omitzero"`
	UpdatedBy      string          `json:"updated_by"`
	OpenJobs       int64           `json:"open_jobs"`
	UnresolvedJobs int64           `json:"unresolved_jobs"`
}

// StorageOption has a literal value, or for a secret a reference to it: file:PATH
// or env:NAME, which each master resolves when it sends.
type StorageOption struct {
	Key   string `json:"key"`
	Value string `json:"value,omitempty"`
	Ref   string `json:"ref,omitempty"`
}

// Refresher says how a catalog's metadata is refreshed.
type Refresher struct {
	Kind        string   `json:"kind"` // none, http or doris
	URL         string   `json:"url,omitempty"`
	Frontends   []string `json:"frontends,omitempty"`
	User        string   `json:"user,omitempty"`
	PasswordRef string   `json:"password_ref,omitempty"`
	CARef       string   `json:"ca_ref,omitempty"`
	TLS         bool     `json:"tls,omitempty"`
	Timeout     Duration `json:"timeout,omitzero"`
}

// PutCatalog creates a catalog (revision 0) or changes it from the revision that it
// carries. A catalog that moved on since is refused, so the call is sent at most
// once but its loss can be found out by reading the catalog.
func (c *Client) PutCatalog(ctx context.Context, k Catalog) (*Catalog, error) {
	request := &admin.TPutCatalogRequest{
		Ctx: c.caller(), Name: &k.Name, Store: optional(k.Store), ExpectedRevision: &k.Revision,
		Options: []*admin.TStorageOption{}, Refresher: refresherWire(k.Refresher),
	}
	for _, o := range k.Options {
		w := &admin.TStorageOption{Key: o.Key}
		if o.Ref != "" {
			w.Ref = ptr(o.Ref)
		} else {
			w.Value = ptr(o.Value)
		}
		request.Options = append(request.Options, w)
	}
	op := change("the change of the catalog")
	op.next = "look at it with: lancemaster catalog show " + k.Name
	answer, err := invoke(ctx, c, op, func(ctx context.Context, a *admin.AdminServiceClient) (*admin.TCatalog, error) {
		return a.PutCatalog(ctx, request)
	})
	if err != nil {
		return nil, err
	}
	return catalogOf(answer), nil
}

// Catalog returns one catalog.
func (c *Client) Catalog(ctx context.Context, name string) (*Catalog, error) {
	answer, err := invoke(ctx, c, read("reading the catalog"), func(ctx context.Context, a *admin.AdminServiceClient) (*admin.TCatalog, error) {
		return a.GetCatalog(ctx, &admin.TGetCatalogRequest{Ctx: c.caller(), Name: &name})
	})
	if err != nil {
		return nil, err
	}
	return catalogOf(answer), nil
}

// Catalogs returns all catalogs by name.
func (c *Client) Catalogs(ctx context.Context) ([]Catalog, error) {
	answer, err := invoke(ctx, c, read("listing catalogs"), func(ctx context.Context, a *admin.AdminServiceClient) (*admin.TListCatalogsResponse, error) {
		return a.ListCatalogs(ctx, &admin.TListRequest{Ctx: c.caller()})
	})
	if err != nil {
		return nil, err
	}
	out := []Catalog{}
	for _, k := range answer.Catalogs {
		out = append(out, *catalogOf(k))
	}
	return out, nil
}

// RemoveCatalog removes a catalog that has no open jobs.
func (c *Client) RemoveCatalog(ctx context.Context, name string) error {
	op := change("the removal of the catalog")
	op.next = "look with: lancemaster catalog list"
	_, err := invoke(ctx, c, op, func(ctx context.Context, a *admin.AdminServiceClient) (*admin.TRemoveResponse, error) {
		return a.RemoveCatalog(ctx, &admin.TGetCatalogRequest{Ctx: c.caller(), Name: &name})
	})
	return err
}
