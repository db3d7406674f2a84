package admission

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/lancemaster/lancemaster/internal/job"
)

// invalid refuses a malformed request. next may be empty where the message says it all.
func invalid(next, format string, args ...any) *job.Refusal {
	if next == "" {
		next = "correct it and ask again"
	}
	return &job.Refusal{Code: job.CodeInvalid, Message: fmt.Sprintf(format, args...), Next: next}
}

func checkNames(p *plan) error {
	if err := job.CheckIndexName(p.sub.IndexName); err != nil {
		return err
	}
	for _, n := range []struct{ what, value string }{
		{"catalog", p.sub.Catalog}, {"database", p.sub.Database}, {"table", p.sub.Table},
	} {
		if err := checkText(n.what, n.value); err != nil {
			return err
		}
	}
	if len(p.sub.RequestID) > job.MaxName || !utf8.ValidString(p.sub.RequestID) {
		return invalid("", "the request id is over %d bytes or not valid UTF-8", job.MaxName)
	}
	p.target = job.Target{
		Catalog: p.sub.Catalog, Database: p.sub.Database, Table: p.sub.Table, Provider: job.Provider,
		IndexName: p.sub.IndexName, IndexKey: job.NormalizeIndexName(p.sub.IndexName),
	}
	return nil
}

func checkText(what, value string) error {
	switch {
	case value == "":
		return invalid("name the "+what, "the %s is missing", what)
	case len(value) > job.MaxName:
		return invalid("", "the %s is %d bytes long; the limit is %d", what, len(value), job.MaxName)
	case !utf8.ValidString(value):
		return invalid("", "the %s is not valid UTF-8", what)
	case strings.ContainsFunc(value, unicode.IsControl):
		return invalid("", "the %s has control characters", what)
	}
	return nil
}

func checkType(p *plan) error {
	sub := p.sub
	if !sub.Mutation.Valid() {
		return invalid("ask for CREATE, REPLACE or DROP", "the mutation is missing or not known")
	}
	if sub.IfNotExists && sub.Mutation != job.MutationCreate {
		return invalid("", "if_not_exists goes with CREATE only, not with %s", sub.Mutation)
	}
	if sub.IfExists && sub.Mutation != job.MutationDrop {
		return invalid("", "if_exists goes with DROP only, not with %s", sub.Mutation)
	}
	deadline, err := executeDeadline(sub.ExecuteDeadline, p.settings)
	if err != nil {
		return err
	}
	p.spec = job.Spec{
		Mutation: sub.Mutation, IfNotExists: sub.IfNotExists, IfExists: sub.IfExists,
		MaxNumPartitions: p.settings.MaxNumPartitions, MaxNumSubVectors: p.settings.MaxNumSubVectors,
		ExecuteDeadline: deadline,
	}
	if sub.Mutation == job.MutationDrop {
		if sub.IndexType != "" || sub.Column != "" || len(sub.Properties) > 0 {
			return invalid("leave them out", "DROP takes no index type, column or properties")
		}
		return nil
	}
	t, ok := job.ParseIndexType(sub.IndexType)
	if !ok {
		return invalid("ask for ivf_pq, btree or bitmap", "the index type %.40q is not known", sub.IndexType)
	}
	if t == job.IndexIVFPQ {
		pq, refusal := job.ParseIVFPQ(sub.Properties, p.settings.Bounds())
		if refusal != nil {
			return refusal
		}
		p.subVectors = pq.NumSubVectors
	}
	properties, refusal := job.CanonicalProperties(t, sub.Properties, p.settings.Bounds())
	if refusal != nil {
		return refusal
	}
	if err := checkText("column", sub.Column); err != nil {
		return err
	}
	p.spec.IndexType, p.spec.Column, p.spec.PropertiesJSON = t, sub.Column, properties
	return nil
}

func executeDeadline(asked int64, s job.Settings) (int64, error) {
	limit := s.MaxExecuteDeadline.Milliseconds()
	switch {
	case asked == 0:
		return s.ExecuteDeadline.Milliseconds(), nil
	case asked < 0:
		return 0, invalid("", "the execute deadline is negative")
	case asked > limit:
		return 0, invalid("ask for less, or raise the setting dispatch.max_execute_deadline",
			"the execute deadline of %s is over the limit of %s",
			job.FormatDuration(time.Duration(asked)*time.Millisecond), job.FormatDuration(s.MaxExecuteDeadline))
	}
	return asked, nil
}

func checkLocator(p *plan) error {
	locator, err := job.NormalizeLocator(p.sub.DatasetURI)
	if err != nil {
		return err
	}
	p.target.Locator = locator
	return nil
}

func (s *Service) checkCatalog(p *plan) error {
	var c *job.Catalog
	s.state.Read(func(l *job.Live) { c = l.Catalog(p.target.Catalog) })
	if c == nil {
		return &job.Refusal{
			Code:    job.CodeNotFound,
			Message: fmt.Sprintf("there is no catalog %q", p.target.Catalog),
			Next:    "see: lancemaster catalog list; create it with: lancemaster catalog create",
		}
	}
	p.target.Store = job.StoreFor(c, p.target.Locator)
	return nil
}

// checkLocal refuses a dataset on a local disk where it could mean another
// directory on another machine. No backend at all is no reason: the job waits.
func (s *Service) checkLocal(p *plan) error {
	if job.LocatorScheme(p.target.Locator) != "file" {
		return nil
	}
	backends := 0
	s.state.Read(func(l *job.Live) { backends = len(l.Backends()) })
	refuse := func(why, next string) error {
		return &job.Refusal{Code: job.CodeLocalDataset, Message: "a file: dataset is refused here: " + why, Next: next}
	}
	switch {
	case !p.settings.LocalDatasetsAllowed:
		return refuse("setting local_datasets.allowed is false",
			"where master and backend share one disk, allow it with: lancemaster settings set local_datasets.allowed=true")
	case s.members() != 1:
		return refuse("the cluster has more than one member, and a path may mean another directory on each",
			"put the dataset on an object store")
	case backends > 1:
		return refuse("more than one backend is registered, and a path may mean another directory on each",
			"put the dataset on an object store, or keep one backend")
	}
	return nil
}
