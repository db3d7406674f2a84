package job

import (
	"fmt"
	"slices"
	"strings"
)

// putCatalog creates a catalog, or changes one at exactly the revision its caller
// has seen.
func putCatalog(v View, c PutCatalog) (Change, *Refusal) {
	next := cloneCatalog(c.Catalog)
	if next.Refresher.Kind == "" {
		next.Refresher.Kind = RefresherNone
	}
	if refusal := CheckCatalog(next); refusal != nil {
		return Change{}, refusal
	}
	old := v.Catalog(next.Name)
	if c.Expected == 0 {
		if old != nil {
			return Change{}, refuse(CodeAlreadyExists, fmt.Sprintf("there is a catalog %q already", next.Name),
				"choose another name, or update it")
		}
		next.Revision, next.CreatedAt = 1, c.At
	} else {
		if refusal := catalogAt(old, next.Name, c.Expected); refusal != nil {
			return Change{}, refusal
		}
		if refusal := checkMove(v, old, next); refusal != nil {
			return Change{}, refusal
		}
		if sameCatalog(old, next) {
			return Change{Answer: Answer{Catalog: old, Existing: true}}, nil
		}
		next.Revision, next.CreatedAt = old.Revision+1, old.CreatedAt
	}
	next.UpdatedAt, next.UpdatedBy = c.At, c.Actor
	return Change{
		Catalog: &CatalogChange{Name: next.Name, Old: old, New: next},
		Answer:  Answer{Catalog: next},
	}, nil
}

func catalogAt(c *Catalog, name string, expected int64) *Refusal {
	if c == nil {
		return noCatalog(name)
	}
	if c.Revision != expected {
		return refuse(CodeRevisionMismatch, fmt.Sprintf("catalog %q is at revision %d, not %d", name, c.Revision, expected),
			"look at it as it is now, and ask again if you still want the change")
	}
	return nil
}

// checkMove refuses to move a catalog to another store under its open jobs, whose
// fences stand at the old one.
func checkMove(v View, old, next *Catalog) *Refusal {
	open := v.OpenInCatalog(old.Name)
	moved := old.Store != next.Store || next.Store == "" && endpoint(old) != endpoint(next)
	if !moved || open == 0 {
		return nil
	}
	return refuse(CodeInUse, fmt.Sprintf("the store of catalog %q was not changed under its open jobs (%d)", old.Name, open),
		seeOpen(old.Name)+"; ask again when they are closed, or create another catalog")
}

func removeCatalog(v View, c RemoveCatalog) (Change, *Refusal) {
	old := v.Catalog(c.Catalog)
	if old == nil {
		return Change{}, noCatalog(c.Catalog)
	}
	if open := v.OpenInCatalog(old.Name); open > 0 {
		return Change{}, refuse(CodeInUse, fmt.Sprintf("catalog %q was not removed: open jobs (%d) use it", old.Name, open),
			seeOpen(old.Name)+"; ask again when they are closed")
	}
	return Change{Catalog: &CatalogChange{Name: old.Name, Old: old}, Answer: Answer{Catalog: old}}, nil
}

// seeOpen says how to find out what a catalog's open jobs wait for. To wait alone may be
// for ever: an UNKNOWN one holds its name until an operator releases it.
func seeOpen(catalog string) string {
	return fmt.Sprintf("list them with: lancemaster job list --open --catalog %s, and see what each waits for with: lancemaster job explain JOB", catalog)
}

func noCatalog(name string) *Refusal {
	return refuse(CodeNotFound, fmt.Sprintf("there is no catalog %q", printable(name)), "see: lancemaster catalog list")
}

func cloneCatalog(c Catalog) *Catalog {
	c.Options = slices.Clone(c.Options)
	c.Refresher.Frontends = slices.Clone(c.Refresher.Frontends)
	return &c
}

func sameCatalog(a, b *Catalog) bool {
	return a.Store == b.Store && slices.Equal(a.Options, b.Options) && sameRefresher(a.Refresher, b.Refresher)
}

func sameRefresher(a, b Refresher) bool {
	return a.Kind == b.Kind && a.URL == b.URL && slices.Equal(a.Frontends, b.Frontends) && a.User == b.User &&
		a.PasswordRef == b.PasswordRef && a.CARef == b.CARef && a.TLS == b.TLS && a.TimeoutMS == b.TimeoutMS
}

// endpointKeys are the options that say where a store is, the first one found
// counts.
var endpointKeys = []string{
	"endpoint", "endpoint_url", "aws_endpoint", "aws_endpoint_url", "s3.endpoint",
	"azure_endpoint", "azure_storage_endpoint", "google_endpoint", "google_endpoint_url", "oss_endpoint",
}

// endpoint returns a catalog's endpoint option, lower-cased and without trailing
// slashes, or nothing.
func endpoint(c *Catalog) string {
	for _, key := range endpointKeys {
		for _, o := range c.Options {
			if lower(o.Key) == key && o.Value != "" {
				return strings.TrimRight(lower(o.Value), "/")
			}
		}
	}
	return ""
}

// StoreFor returns the store identity of a locator in a catalog: the one the
// catalog names, else its endpoint option, else the locator's scheme. file: is
// always the store of its own name unless the catalog says otherwise. Catalogs
// with the same identity share fences and quotas. c may be nil.
func StoreFor(c *Catalog, locator string) string {
	scheme := LocatorScheme(locator)
	if c == nil {
		return scheme
	}
	if c.Store != "" {
		return c.Store
	}
	if at := endpoint(c); at != "" && scheme != schemeFile {
		return at
	}
	return scheme
}
