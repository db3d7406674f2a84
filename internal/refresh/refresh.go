package refresh

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// DefaultTimeout bounds an attempt where the catalog does not say.
const DefaultTimeout = 30 * time.Second

// Spec is how a catalog says that its metadata is refreshed.
type Spec struct {
	Kind        string
	URL         string
	Frontends   []string // host:port, tried in order
	User        string
	PasswordRef string // file:PATH or env:NAME, resolved at each attempt
	CARef       string // file:PATH of a CA bundle
	TLS         bool
}

// Attempt is what one attempt is about.
type Attempt struct {
	Job            int64
	Number         int64 // counts the attempts of this job, from 1
	Catalog        string
	Database       string
	Table          string
	DatasetURI     string
	DatasetVersion int64 // at admission; the job's own commit is newer
}

// Refresher is one way to refresh. Refresh returns within the context's bound,
// with evidence or an error; the error's text carries no secret. It is called by
// several goroutines at once.
type Refresher interface {
	Refresh(ctx context.Context, spec Spec, attempt Attempt) (evidence string, err error)
}

// Registry finds the refresher of a kind. It does not change once it is made.
type Registry struct{ byKind map[string]Refresher }

// KindNone is the kind of a catalog that has nothing to refresh.
const KindNone = "none"

// NewRegistry returns a registry of the refresher none and of those given.
func NewRegistry(more map[string]Refresher) *Registry {
	r := &Registry{byKind: map[string]Refresher{KindNone: None{}}}
	for kind, refresher := range more {
		r.byKind[kind] = refresher
	}
	return r
}

// Kinds returns the kinds that the registry knows, sorted.
func (r *Registry) Kinds() []string {
	kinds := make([]string, 0, len(r.byKind))
	for kind := range r.byKind {
		kinds = append(kinds, kind)
	}
	slices.Sort(kinds)
	return kinds
}

// Refresh makes one attempt with the refresher that the spec names. A refresher
// that answers without evidence has failed.
func (r *Registry) Refresh(ctx context.Context, spec Spec, attempt Attempt) (string, error) {
	refresher, ok := r.byKind[spec.Kind]
	if !ok {
		return "", fmt.Errorf("no refresher %q in this build, which knows %s; change the catalog's refresher or upgrade",
			spec.Kind, strings.Join(r.Kinds(), ", "))
	}
	evidence, err := refresher.Refresh(ctx, spec, attempt)
	if err != nil {
		return "", err
	}
	if strings.TrimSpace(evidence) == "" {
		return "", fmt.Errorf("the refresher %q gave no evidence that it refreshed anything", spec.Kind)
	}
	return evidence, nil
}

// None is the refresher of a catalog whose readers need no telling.
type None struct{}

// NoneEvidence is what DONE rests on where there is nothing to refresh.
const NoneEvidence = "the catalog has no refresher: there is nothing to refresh"

// Refresh has nothing to do and says so.
func (None) Refresh(context.Context, Spec, Attempt) (string, error) { return NoneEvidence, nil }
