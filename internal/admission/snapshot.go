package admission

import (
	"context"
	"fmt"
	"strings"

	"github.com/lancemaster/lancemaster/internal/job"
	"github.com/lancemaster/lancemaster/internal/lance"
)

// takeSnapshot fills in version, contract and stored spellings, from the
// dataset where this master can read it and else from the caller.
func (s *Service) takeSnapshot(ctx context.Context, p *plan) (noop string, err error) {
	local := job.LocatorScheme(p.target.Locator) == "file"
	switch {
	case p.sub.CallerSnapshot != nil && local:
		return "", invalid("leave the dataset version and schema contract out",
			"this master reads file: datasets itself and takes no snapshot from the caller")
	case p.sub.CallerSnapshot != nil:
		return "", callerSnapshot(p)
	case !local:
		return "", &job.Refusal{
			Code:    job.CodeDatasetUnreadable,
			Message: fmt.Sprintf("this master cannot read %s: datasets", job.LocatorScheme(p.target.Locator)),
			Next:    "supply what it would have read: --dataset-version, and for CREATE and REPLACE --schema-contract",
		}
	}
	d, err := s.open(ctx, p.target.Locator)
	if err != nil {
		return "", DatasetRefusal(err)
	}
	return manifestSnapshot(p, d)
}

func manifestSnapshot(p *plan, d *lance.Dataset) (noop string, err error) {
	p.snapshot = job.Snapshot{DatasetVersion: d.Version, Source: job.SnapshotManifest}
	var field lance.Field
	if p.sub.Mutation != job.MutationDrop {
		if field, err = d.Column(p.sub.Column); err != nil {
			return "", DatasetRefusal(err)
		}
		if p.snapshot.SchemaContract, err = lance.SchemaContract(field); err != nil {
			return "", DatasetRefusal(err)
		}
		p.spec.Column = field.Name
		if err := checkColumn(p, p.snapshot.SchemaContract); err != nil {
			return "", err
		}
	}
	index, found, err := d.FindIndex(p.target.IndexKey)
	if err != nil {
		return "", DatasetRefusal(err)
	}
	switch {
	case p.sub.Mutation == job.MutationCreate && found:
		return existing(p, index, field)
	case p.sub.Mutation == job.MutationDrop && !found && p.sub.IfExists:
		return fmt.Sprintf("the dataset has no index %q at version %d", p.sub.IndexName, d.Version), nil
	case p.sub.Mutation == job.MutationDrop && !found:
		return "", &job.Refusal{
			Code:    job.CodeIndexMissing,
			Message: fmt.Sprintf("DROP of %q is refused: the dataset has no such index at version %d", p.sub.IndexName, d.Version),
			Next:    "see: lancemaster index list; to have this be no error ask with --if-exists",
		}
	}
	if found { // REPLACE and DROP send what the dataset stores
		p.target.IndexName = index.Name
	}
	return "", nil
}

// existing decides a CREATE of a name that the dataset has.
func existing(p *plan, index lance.Index, field lance.Field) (noop string, err error) {
	differs := difference(p, index, field)
	if p.sub.IfNotExists && differs == "" {
		return fmt.Sprintf("the dataset has index %q with this definition already", index.Name), nil
	}
	r := &job.Refusal{
		Code:    job.CodeIndexExists,
		Message: fmt.Sprintf("CREATE of %q is refused: the dataset has index %q", p.sub.IndexName, index.Name),
		Next:    "choose another name, or replace it with --replace",
	}
	if p.sub.IfNotExists {
		r.Message += " with another definition: " + differs
	} else if differs == "" {
		r.Next += "; to have an equal index be no error ask with --if-not-exists"
	}
	return "", r
}

// difference says how a stored index differs from the one asked for; empty when
// it does not. What the request leaves open or the manifest does not keep is not
// compared, and num_partitions never is.
func difference(p *plan, index lance.Index, field lance.Field) string {
	if string(index.Type) != string(p.spec.IndexType) {
		stored := string(index.Type)
		if stored == "" {
			stored = "another type"
		}
		return fmt.Sprintf("it is %s, not %s", stored, p.spec.IndexType)
	}
	if len(index.FieldIDs) != 1 || index.FieldIDs[0] != field.ID {
		return fmt.Sprintf("it is on another column than %q", field.Name)
	}
	for _, given := range p.sub.Properties {
		stored := ""
		switch strings.ToLower(given.Key) {
		case "metric":
			stored = string(index.Metric)
		case "num_sub_vectors":
			stored = number(index.NumSubVectors)
		case "num_bits":
			stored = number(index.NumBits)
		}
		asked := strings.TrimSpace(given.Value)
		if stored != "" && !strings.EqualFold(stored, strings.TrimLeft(asked, "0")) {
			return fmt.Sprintf("its %s is %s, not %s", strings.ToLower(given.Key), stored, asked)
		}
	}
	return ""
}

func number(n uint32) string {
	if n == 0 {
		return "" // the manifest does not say
	}
	return fmt.Sprint(n)
}

func callerSnapshot(p *plan) error {
	c := p.sub.CallerSnapshot
	if c.DatasetVersion < 1 {
		return invalid("give the version the contract was read from", "the dataset version is %d; versions begin at 1", c.DatasetVersion)
	}
	p.snapshot = job.Snapshot{DatasetVersion: c.DatasetVersion, Source: job.SnapshotCaller}
	if p.sub.Mutation == job.MutationDrop {
		if c.SchemaContract != "" {
			return invalid("leave it out", "DROP takes no schema contract")
		}
	} else {
		canonical, err := parseContract(c.SchemaContract)
		if err != nil {
			return err
		}
		p.snapshot.SchemaContract = canonical.JSON()
		if err := checkColumn(p, p.snapshot.SchemaContract); err != nil {
			return err
		}
	}
	if c.StoredIndexName == "" {
		return nil
	}
	if p.sub.Mutation == job.MutationCreate {
		return invalid("leave it out", "CREATE takes no stored index name")
	}
	if job.NormalizeIndexName(c.StoredIndexName) != p.target.IndexKey {
		return invalid("give the stored spelling of the same name", "the stored index name %q is another name than %q", c.StoredIndexName, p.sub.IndexName)
	}
	if err := job.CheckIndexName(c.StoredIndexName); err != nil {
		return err
	}
	p.target.IndexName = c.StoredIndexName
	return nil
}

// DatasetRefusal gives a failure to read a dataset, an error of package lance, its
// code and next step. Any other error is returned as it is.
func DatasetRefusal(err error) error {
	r := &job.Refusal{Message: err.Error()}
	switch lance.CodeOf(err) {
	case lance.DatasetMissing:
		r.Code, r.Next = job.CodeDatasetMissing, "check the URI; the folder must hold a _versions folder"
	case lance.ManifestDamaged:
		r.Code, r.Next = job.CodeDatasetDamaged, "repair or restore the dataset; nothing was changed"
	case lance.NotLocal:
		r.Code, r.Next = job.CodeDatasetUnreadable, "look at it with Lance itself; a job on it is submitted with --dataset-version and --schema-contract"
	case lance.Unsupported, lance.Unreadable:
		r.Code, r.Next = job.CodeDatasetUnreadable, "see that this master may read the dataset and knows its features"
	case lance.ColumnMissing, lance.ColumnNested, lance.ColumnAmbiguous, lance.ColumnUnsupported:
		r.Code, r.Next = job.CodeColumn, "see the columns with: lancemaster dataset inspect URI"
	case lance.IndexAmbiguous:
		r.Code, r.Next = job.CodeIndexExists, "drop or rename one of the two with Lance itself first"
	default:
		return err // the caller's context ended
	}
	return r
}
