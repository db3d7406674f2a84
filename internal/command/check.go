package command

import (
	"fmt"

	"github.com/lancemaster/lancemaster/internal/job"
)

// Bounds beyond those of package job.
const (
	// maxStored bounds each text of a record. Commands, the only way in, are held to
	// the contract's bounds; a record is held only to what keeps memory safe, because
	// a text that a transition composed a little too long must not stop every node
	// of a cluster at once.
	maxStored      = 16 << 10
	maxOptionValue = 4096
	maxOptions     = 256
	maxFrontends   = 256
	maxLabels      = 256
	maxSettings    = 1024
	maxMembers     = 256
)

// checker collects the first fault of a value. The same checks run before
// encoding and after decoding.
type checker struct{ err error }

func (c *checker) text(name, s string, limit int) {
	if c.err == nil && len(s) > limit {
		c.err = fmt.Errorf("%s is %d bytes long, at most %d are allowed", name, len(s), limit)
	}
}

func (c *checker) count(name string, n, limit int) {
	if c.err == nil && n > limit {
		c.err = fmt.Errorf("%s has %d entries, at most %d are allowed", name, n, limit)
	}
}

// number refuses an enum's number that is not one of its values. Zero stands for
// "none" where the field allows it.
func (c *checker) number(name string, n uint8, valid, zero bool) {
	if c.err == nil && !valid && (!zero || n != 0) {
		c.err = fmt.Errorf("%s has no value %d", name, n)
	}
}

func (c *checker) header(h job.Header) { c.text("actor", h.Actor, job.MaxName) }

func (c *checker) target(t job.Target, limit int) {
	c.text("catalog", t.Catalog, limit)
	c.text("store", t.Store, limit)
	c.text("database", t.Database, limit)
	c.text("table", t.Table, limit)
	c.text("provider", t.Provider, limit)
	c.text("locator", t.Locator, limit)
	c.text("index name", t.IndexName, limit)
	c.text("normalized index name", t.IndexKey, limit)
}

func (c *checker) spec(s job.Spec, limit int) {
	c.number("mutation", uint8(s.Mutation), s.Mutation.Valid(), false)
	switch s.IndexType {
	case "", job.IndexIVFPQ, job.IndexBTree, job.IndexBitmap:
	default:
		c.text("index type", string(s.IndexType), limit)
		if c.err == nil {
			c.err = fmt.Errorf("index type %q is not known", s.IndexType)
		}
	}
	c.text("column", s.Column, limit)
	c.text("properties", s.PropertiesJSON, max(limit, job.MaxProperties))
}

func (c *checker) snapshot(s job.Snapshot) {
	c.text("schema contract", s.SchemaContract, job.MaxSchemaContract)
	c.number("snapshot source", uint8(s.Source), s.Source.Valid(), false)
}

func (c *checker) identity(i job.Identity) {
	c.text("invocation id", i.InvocationID, job.MaxInvocationID)
}

func (c *checker) settings(values []job.SettingValue) {
	c.count("settings", len(values), maxSettings)
	for _, v := range values {
		c.text("setting name", v.Name, job.MaxName)
		c.text("setting value", v.Value, job.MaxName)
	}
}

func (c *checker) labels(labels []job.Label) {
	c.count("labels", len(labels), maxLabels)
	for _, l := range labels {
		c.text("label key", l.Key, job.MaxName)
		c.text("label value", l.Value, job.MaxName)
	}
}

func (c *checker) catalog(v *job.Catalog) {
	c.text("catalog name", v.Name, job.MaxName)
	c.text("store", v.Store, job.MaxName)
	c.count("storage options", len(v.Options), maxOptions)
	for _, o := range v.Options {
		c.text("storage option key", o.Key, job.MaxName)
		c.text("storage option value", o.Value, maxOptionValue)
		c.text("storage option reference", o.Ref, maxOptionValue)
	}
	r := v.Refresher
	switch r.Kind {
	case "", job.RefresherNone, job.RefresherHTTP, job.RefresherDoris:
	default:
		c.text("refresher", string(r.Kind), job.MaxName)
		if c.err == nil {
			c.err = fmt.Errorf("refresher %q is not known", r.Kind)
		}
	}
	c.text("refresher url", r.URL, maxOptionValue)
	c.count("refresher frontends", len(r.Frontends), maxFrontends)
	for _, f := range r.Frontends {
		c.text("refresher frontend", f, job.MaxName)
	}
	c.text("refresher user", r.User, job.MaxName)
	c.text("refresher password reference", r.PasswordRef, maxOptionValue)
	c.text("refresher CA reference", r.CARef, maxOptionValue)
	c.text("updated by", v.UpdatedBy, job.MaxName)
}

func (c *checker) members(list []job.Member) {
	c.count("members", len(list), maxMembers)
	for i := range list {
		c.member(&list[i])
	}
}

// ---- commands ---------------------------------------------------------------

func (c *checker) form(v job.Form) {
	c.header(v.Header)
	c.settings(v.Settings)
	c.members(v.Members)
}

func (c *checker) admit(v job.Admit) {
	c.header(v.Header)
	c.text("request id", v.RequestID, job.MaxName)
	c.target(v.Target, job.MaxName)
	c.spec(v.Spec, job.MaxName)
	c.snapshot(v.Snapshot)
}

func (c *checker) markRunning(v job.MarkRunning) {
	c.header(v.Header)
	c.text("invocation id", v.InvocationID, job.MaxInvocationID)
}

func (c *checker) complete(v job.Complete) {
	c.header(v.Header)
	c.identity(v.Identity)
	c.number("result code", uint8(v.Code), v.Code.Valid(), false)
	c.text("message", v.Message, job.MaxMessage)
	c.number("termination proof", uint8(v.Proof), v.Proof.Valid(), false)
}

func (c *checker) recordTermination(v job.RecordTermination) {
	c.header(v.Header)
	c.identity(v.Identity)
	c.number("termination proof", uint8(v.Proof), v.Proof.Valid(), false)
}

func (c *checker) refreshStart(v job.RefreshStart) { c.header(v.Header) }

func (c *checker) refreshFinish(v job.RefreshFinish) {
	c.header(v.Header)
	c.text("evidence", v.Evidence, job.MaxMessage)
	c.text("message", v.Message, job.MaxMessage)
}

func (c *checker) cancel(v job.Cancel) {
	c.header(v.Header)
	c.text("note", v.Note, job.MaxNote)
}

func (c *checker) reject(v job.RejectBeforeDispatch) {
	c.header(v.Header)
	c.text("message", v.Message, job.MaxMessage)
}

func (c *checker) forceRelease(v job.ForceRelease) {
	c.header(v.Header)
	c.text("note", v.Note, job.MaxNote)
	c.text("warning", v.Warning, job.MaxNote)
}

func (c *checker) releaseSlot(v job.ReleaseSlot) {
	c.header(v.Header)
	c.text("note", v.Note, job.MaxNote)
}

func (c *checker) recordLateResult(v job.RecordLateResult) {
	c.header(v.Header)
	c.identity(v.Identity)
	c.number("result code", uint8(v.Code), v.Code.Valid(), false)
	c.text("message", v.Message, job.MaxMessage)
	c.number("termination proof", uint8(v.Proof), v.Proof.Valid(), false)
}

func (c *checker) quarantine(v job.Quarantine) {
	c.header(v.Header)
	c.text("cause", v.Cause, job.MaxNote)
	c.members(v.Members)
}

func (c *checker) termStart(v job.TermStart) { c.header(v.Header) }

func (c *checker) removeResolved(v job.RemoveResolved) { c.header(v.Header) }

func (c *checker) putCatalog(v job.PutCatalog) {
	c.header(v.Header)
	c.catalog(&v.Catalog)
}

func (c *checker) removeCatalog(v job.RemoveCatalog) {
	c.header(v.Header)
	c.text("catalog name", v.Catalog, job.MaxName)
}

func (c *checker) addBackend(v job.AddBackend) {
	c.header(v.Header)
	c.text("host", v.Address.Host, job.MaxName)
	c.labels(v.Labels)
}

func (c *checker) setBackendState(v job.SetBackendState) {
	c.header(v.Header)
	c.number("backend state", uint8(v.State), v.State.Valid(), false)
}

func (c *checker) removeBackend(v job.RemoveBackend) { c.header(v.Header) }

func (c *checker) changeSettings(v job.ChangeSettings) {
	c.header(v.Header)
	c.settings(v.Values)
}

func (c *checker) raiseLevel(v job.RaiseLevel) {
	c.header(v.Header)
	c.settings(v.Defaults)
}

func (c *checker) reopen(v job.Reopen) {
	c.header(v.Header)
	c.text("note", v.Note, job.MaxNote)
}

func (c *checker) putMember(v job.PutMember) {
	c.header(v.Header)
	c.text("node id", v.NodeID, job.MaxName)
	c.text("instance id", v.InstanceID, job.MaxName)
	c.text("address", v.Address, job.MaxName)
	c.text("replaced instance id", v.Replaces, job.MaxName)
}

func (c *checker) removeMember(v job.RemoveMember) {
	c.header(v.Header)
	c.text("node id", v.NodeID, job.MaxName)
}

func (c *checker) putToken(v job.PutToken) {
	c.header(v.Header)
	c.text("token name", v.Token, job.MaxName)
	c.number("role", uint8(v.Role), v.Role.Valid(), false)
}

func (c *checker) removeToken(v job.RemoveToken) {
	c.header(v.Header)
	c.text("token name", v.Token, job.MaxName)
}

// ---- records ----------------------------------------------------------------

func (c *checker) record(r *job.Record) {
	c.text("creator", r.Creator, maxStored)
	c.text("request id", r.RequestID, maxStored)
	c.target(r.Target, maxStored)
	c.spec(r.Spec, maxStored)
	c.snapshot(r.Snapshot)
	c.dispatch(r.Dispatch)
	c.number("state", uint8(r.State), r.State.Valid(), false)
	c.refresh("refresh state", r.Refresh)
	c.refresh("late refresh state", r.LateRefresh)
	if r.Result != nil {
		c.number("result code", uint8(r.Result.Code), r.Result.Code.Valid(), true)
		c.number("completion reason", uint8(r.Result.Reason), r.Result.Reason.Valid(), false)
		c.text("result message", r.Result.Message, maxStored)
	}
	c.count("late results", len(r.LateResults), job.MaxLateResults)
	for _, l := range r.LateResults {
		c.number("late result code", uint8(l.Code), l.Code.Valid(), false)
		c.text("late result message", l.Message, maxStored)
	}
	c.release(r.ForceRelease)
	c.release(r.SlotRelease)
}

func (c *checker) dispatch(d job.Dispatch) {
	c.text("invocation id", d.InvocationID, maxStored)
	c.number("termination proof", uint8(d.Proof), d.Proof.Valid(), true)
	c.count("evidence", len(d.Evidence), job.MaxEvidence)
	for _, e := range d.Evidence {
		c.number("termination proof", uint8(e.Proof), e.Proof.Valid(), false)
	}
}

func (c *checker) refresh(name string, r job.Refresh) {
	c.number(name, uint8(r.State), r.State.Valid(), false)
	c.text("refresh evidence", r.Evidence, maxStored)
	if r.LastFailure != nil {
		c.text("refresh failure", r.LastFailure.Message, maxStored)
	}
}

func (c *checker) release(r *job.Release) {
	if r != nil {
		c.text("actor", r.Actor, maxStored)
		c.text("note", r.Note, maxStored)
		c.text("warning", r.Warning, maxStored)
	}
}

func (c *checker) event(e job.Event) {
	c.text("actor", e.Actor, maxStored)
	c.text("event kind", string(e.Kind), job.MaxName)
	c.number("state before", uint8(e.From), e.From.Valid(), true)
	c.number("state after", uint8(e.To), e.To.Valid(), false)
	c.number("refresh state before", uint8(e.FromRefresh), e.FromRefresh.Valid(), true)
	c.number("refresh state after", uint8(e.ToRefresh), e.ToRefresh.Valid(), false)
	c.text("reason", e.Reason, maxStored)
}

func (c *checker) backend(b *job.Backend) {
	c.text("host", b.Address.Host, maxStored)
	c.number("backend state", uint8(b.State), b.State.Valid(), false)
	c.labels(b.Labels)
	c.text("updated by", b.UpdatedBy, maxStored)
}

func (c *checker) cluster(v job.Cluster) {
	c.text("quarantine cause", v.QuarantineCause, maxStored)
	c.text("reopened by", v.ReopenedBy, maxStored)
	c.text("reopen note", v.ReopenNote, maxStored)
}

func (c *checker) member(m *job.Member) {
	c.text("node id", m.NodeID, job.MaxName)
	c.text("instance id", m.InstanceID, job.MaxName)
	c.text("address", m.Address, job.MaxName)
	c.text("added by", m.AddedBy, job.MaxName)
}

func (c *checker) token(t *job.Token) {
	c.text("token name", t.Name, job.MaxName)
	c.number("role", uint8(t.Role), t.Role.Valid(), false)
	c.text("created by", t.CreatedBy, job.MaxName)
}

func (c *checker) settingChange(s job.SettingChange) {
	c.text("setting name", s.Name, maxStored)
	c.text("old value", s.Old, maxStored)
	c.text("new value", s.New, maxStored)
	c.text("actor", s.Actor, maxStored)
}
