package cli

import (
	"encoding/json"
	"fmt"
	"sort"
	"strings"

	"github.com/lancemaster/lancemaster/internal/client"
)

// jobCard shows a job to a person, first in a sentence and then in its parts.
func jobCard(out *page, j *client.Job) {
	out.named(number(j.ID))
	if j.ID == 0 {
		fmt.Fprintf(out, "A job of this request would be:\n\n")
	} else {
		fmt.Fprintf(out, "Job %d: %s\n%s\n\n", j.ID, painted(clean(j.State), out.colours), clean(meaning(j)))
	}
	c := newCard(out)
	cardTarget(c, j)
	cardDispatch(c, j.Dispatch)
	cardOutcome(c, j)
	if j.ID != 0 {
		cardRefresh(c, "Refresh", &j.Refresh)
	}
	if j.LateRefresh != nil {
		cardRefresh(c, "Late refresh", j.LateRefresh)
	}
	cardReleases(c, j)
	if j.ID != 0 {
		c.section("Record")
		c.add("holds", orNothing(holds(j)))
		c.addf("revision", "%d", j.Revision)
		c.addf("created", "%s by %s", j.CreatedAt, j.Creator)
		c.add("request id", j.RequestID)
		c.add("updated", j.UpdatedAt.String())
		c.add("resolved", j.ResolvedAt.String())
		c.add("closed", j.ClosedAt.String())
		c.add("quarantined", j.Quarantined.String())
	}
	c.end()
}

func cardTarget(c *card, j *client.Job) {
	c.section("Target")
	c.add("index", j.Target.IndexName)
	if j.Target.IndexKey != j.Target.IndexName {
		c.add("held as", j.Target.IndexKey)
	}
	c.addf("table", "%s.%s", j.Target.Database, j.Target.Table)
	c.add("catalog", j.Target.Catalog)
	c.add("dataset", j.Target.Locator)
	c.add("store", j.Target.Store)
	c.section("Intent")
	mutation := j.Intent.Mutation
	if j.Intent.IfNotExists {
		mutation += ", if the index does not exist"
	}
	if j.Intent.IfExists {
		mutation += ", if the index exists"
	}
	c.add("mutation", mutation)
	c.add("type", j.Intent.IndexType)
	c.add("column", j.Intent.Column)
	c.add("properties", properties(j.Intent.Properties))
	c.add("execute deadline", j.Intent.ExecuteDeadline.String())
	c.section("Snapshot")
	c.addf("dataset version", "%d", j.Snapshot.DatasetVersion)
	c.add("read by", map[string]string{"manifest": "the master, from the manifest", "caller": "the caller"}[j.Snapshot.Source])
	c.add("schema contract", j.Snapshot.SchemaContract)
}

func cardDispatch(c *card, d *client.Dispatch) {
	if d == nil {
		return
	}
	c.section("Dispatch")
	c.addf("backend", "%d, process epoch %d", d.BackendID, d.ProcessEpoch)
	c.add("invocation", d.InvocationID)
	c.addf("revision", "%d", d.Revision)
	c.add("started", d.StartedAt.String())
	c.add("deadline", d.DeadlineAt.String())
	c.add("slot", map[bool]string{true: "held: its worker may still be alive", false: "free"}[d.SlotHeld])
	if !d.ProofAt.IsZero() {
		c.addf("proof", "%s at %s", d.Proof, d.ProofAt)
	}
	for _, e := range d.Evidence {
		c.addf("evidence", "%s at %s", e.Proof, e.At)
	}
}

func cardOutcome(c *card, j *client.Job) {
	if j.Result != nil {
		c.section("Outcome")
		cardResult(c, j.Result)
	}
	for i := range j.LateResults {
		c.section("Late result")
		cardResult(c, &j.LateResults[i])
	}
}

func cardResult(c *card, r *client.Result) {
	c.add("code", r.Code)
	if r.Reason != "NONE" {
		c.add("reason", r.Reason)
	}
	c.add("message", r.Message)
	if r.ExternalMetadataAdvanced {
		c.add("metadata", "moved on outside")
	}
	c.add("at", r.At.String())
}

func cardRefresh(c *card, title string, r *client.Refresh) {
	c.section(title)
	c.add("state", r.State)
	c.add("attempt", number(r.Attempt))
	c.add("started", r.StartedAt.String())
	c.add("finished", r.FinishedAt.String())
	c.add("evidence", r.Evidence)
	if r.LastFailure != "" {
		c.addf("last failure", "%s: %s", r.LastFailureAt, r.LastFailure)
	}
	c.add("next attempt", r.NextRetryAt.String())
}

func cardReleases(c *card, j *client.Job) {
	for _, r := range []struct {
		title string
		what  *client.Release
	}{{"Force release", j.ForceRelease}, {"Slot release", j.SlotRelease}} {
		if r.what == nil {
			continue
		}
		c.section(r.title)
		c.addf("by", "%s at %s", r.what.Actor, r.what.At)
		c.add("note", r.what.Note)
		c.add("warning", r.what.Warning)
	}
}

func orNothing(s string) string {
	if s == "" {
		return "nothing"
	}
	return s
}

// properties shows the stored JSON as a person would write it.
func properties(text string) string {
	var m map[string]string
	if json.Unmarshal([]byte(text), &m) != nil {
		return text
	}
	var out []string
	for k, v := range m {
		if k != "index_type" {
			out = append(out, k+"="+v)
		}
	}
	sort.Strings(out)
	return strings.Join(out, " ")
}

// meaning says in a sentence where a job stands.
func meaning(j *client.Job) string {
	switch j.State {
	case client.StatePending:
		return "It waits to be sent to a backend."
	case client.StateRunning:
		if j.Dispatch != nil {
			return fmt.Sprintf("It runs on backend %d, which has until %s.", j.Dispatch.BackendID, j.Dispatch.DeadlineAt)
		}
		return "It runs on a backend."
	case client.StateCommitted:
		return "The index is changed" + andName(j)
	case client.StateNotCommitted:
		if j.Noop() {
			return "There was nothing to do" + andName(j)
		}
		return "The dataset was not changed" + andName(j)
	case client.StateUnknown:
		if j.FenceHeld {
			return "Whether the dataset was changed is not known; the index name stays held until an operator force-releases it."
		}
		return "Whether the dataset was changed is not known; the index name is free again."
	}
	return "This command does not know the state; use one as new as the masters."
}

func andName(j *client.Job) string {
	switch {
	case !j.FenceHeld:
		return "; the index name is free."
	case j.Refresh.State == "FAILED":
		return "; the index name is held until the metadata refresh, which failed and is tried again, succeeds."
	}
	return "; the index name is held until the metadata is refreshed."
}
