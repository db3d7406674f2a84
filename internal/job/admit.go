package job

import (
	"fmt"
	"strings"
)

// admit makes a job PENDING. Nothing is stored unless all of it holds.
func admit(v View, p Position, c Admit) (Change, *Refusal) {
	if c.RequestID != "" {
		if r := knownRequest(v, c); r != nil {
			if r.RequestHash == c.RequestHash {
				return unchanged(r), nil
			}
			return Change{}, RequestConflict(r)
		}
	}
	for _, check := range []func() *Refusal{
		func() *Refusal { return CheckGate(v) },
		func() *Refusal { return checkRequestID(c) },
		func() *Refusal { return checkTarget(c.Target, c.Spec.Mutation) },
		func() *Refusal { return checkSpec(v.Settings(), c.Spec) },
		func() *Refusal { return checkSnapshot(c.Snapshot, c.Spec.Mutation) },
		func() *Refusal { return checkStore(v, c.Target) },
		func() *Refusal { return CheckFence(v, c.Target) },
		func() *Refusal { return CheckQuotas(v, c.Target) },
	} {
		if r := check(); r != nil {
			return Change{}, r
		}
	}
	return admitted(v, p, c), nil
}

func admitted(v View, p Position, c Admit) Change {
	cluster := v.Cluster()
	r := &Record{
		ID: cluster.NextJob, Creator: c.Actor, CreatedAt: c.At, UpdatedAt: c.At,
		Target: c.Target, Spec: c.Spec, Snapshot: c.Snapshot,
		State:       StatePending,
		Refresh:     Refresh{State: RefreshNotRequired},
		LateRefresh: Refresh{State: RefreshNotRequired},
	}
	if c.RequestID != "" {
		r.RequestID, r.RequestHash = c.RequestID, c.RequestHash
	}
	cluster.NextJob++
	return Change{
		Jobs: []JobChange{{New: r, Event: &Event{
			Job: r.ID, Index: p.Index, Term: p.Term, At: c.At, Actor: c.Actor,
			Kind: EventAdmitted, To: r.State,
			FromRefresh: r.Refresh.State, ToRefresh: r.Refresh.State, Reason: c.Spec.Mutation.String(),
		}}},
		Cluster: &cluster,
		Answer:  Answer{Job: r},
	}
}

func knownRequest(v View, c Admit) *Record {
	id, ok := v.Request(c.Actor, c.RequestID)
	if !ok {
		return nil
	}
	return v.Job(id)
}

// RequestConflict is the refusal of a request id that its creator has used for
// another body, which became job r.
func RequestConflict(r *Record) *Refusal {
	refusal := refuse(CodeRequestConflict,
		fmt.Sprintf("the request id was used before, with another body, and became job %d", r.ID),
		"use a new request id for a new request")
	refusal.Holder = r.ID
	return refusal
}

// CheckGate refuses admissions while the gate is closed.
func CheckGate(v interface {
	Cluster() Cluster
	Settings() Settings
}) *Refusal {
	if v.Cluster().Quarantined {
		return refuse(CodeQuarantined, "no job is admitted: the cluster was restored or recovered and has not been reopened",
			"make sure that every master of the older incarnation is stopped and that every backend was restarted"+
				" after that, then reopen the cluster")
	}
	if !v.Settings().AdmissionEnabled {
		return refuse(CodeGateClosed, "no job is admitted: the setting admission.enabled is false",
			"an operator opens the gate with: lancemaster settings set admission.enabled=true")
	}
	return nil
}

func checkRequestID(c Admit) *Refusal {
	if r := checkLine("the request id", c.RequestID, MaxName); r != nil {
		return r
	}
	if c.RequestID != "" && c.RequestHash == (Hash{}) {
		return invalid("the request id comes without the hash of its request")
	}
	return nil
}

func checkTarget(t Target, m Mutation) *Refusal {
	if t.Provider != Provider {
		return invalid("the provider is not %s", Provider)
	}
	for _, f := range []struct{ what, value string }{
		{"the catalog", t.Catalog},
		{"the store identity", t.Store},
		{"the database", t.Database},
		{"the table", t.Table},
		{"the locator", t.Locator},
		{"the index name", t.IndexName},
		{"the normalized index name", t.IndexKey},
	} {
		if r := checkName(f.what, f.value); r != nil {
			return r
		}
	}
	// The stored spelling that REPLACE and DROP carry may be longer than what a
	// caller may ask for: letters differ in size between the cases.
	if m == MutationCreate && len(t.IndexName) > MaxIndexName {
		return checkText("the index name", t.IndexName, MaxIndexName)
	}
	if strings.HasPrefix(t.IndexKey, reservedPrefix) {
		return reservedName()
	}
	if LocatorScheme(t.Locator) == "" {
		return invalid("the locator is not in its normalized form")
	}
	return nil
}

func checkSpec(s Settings, spec Spec) *Refusal {
	if !spec.Mutation.Valid() {
		return invalid("the mutation is none of CREATE, REPLACE, DROP")
	}
	if spec.IfNotExists && spec.Mutation != MutationCreate {
		return invalid("if_not_exists goes with CREATE only")
	}
	if spec.IfExists && spec.Mutation != MutationDrop {
		return invalid("if_exists goes with DROP only")
	}
	if limit := s.MaxExecuteDeadline.Milliseconds(); spec.ExecuteDeadline <= 0 || spec.ExecuteDeadline > limit {
		return invalid("the execute deadline is %d ms; it must be positive and at most"+
			" dispatch.max_execute_deadline, %d ms", spec.ExecuteDeadline, limit)
	}
	if spec.MaxNumPartitions <= 0 || spec.MaxNumSubVectors <= 0 {
		return invalid("the bounds on partitions and sub-vectors must be positive")
	}
	if spec.Mutation == MutationDrop {
		if spec.IndexType != "" || spec.Column != "" || spec.PropertiesJSON != "" {
			return invalid("DROP takes no index type, column or properties")
		}
		return nil
	}
	return checkDefinition(spec)
}

func checkDefinition(spec Spec) *Refusal {
	if t, ok := ParseIndexType(string(spec.IndexType)); !ok || t != spec.IndexType {
		return invalid("the index type is none of IVF_PQ, BTREE, BITMAP")
	}
	if r := checkName("the column", spec.Column); r != nil {
		return r
	}
	if r := checkText("the properties", spec.PropertiesJSON, MaxProperties); r != nil {
		return r
	}
	if (spec.IndexType == IndexIVFPQ) != (spec.PropertiesJSON != "") {
		return invalid("IVF_PQ needs its properties, and no other index type takes any")
	}
	return nil
}

func checkSnapshot(s Snapshot, m Mutation) *Refusal {
	if !s.Source.Valid() {
		return invalid("the source of the dataset snapshot is neither manifest nor caller")
	}
	if s.DatasetVersion <= 0 {
		return invalid("the dataset version is %d; it must be positive", s.DatasetVersion)
	}
	if (s.SchemaContract == "") != (m == MutationDrop) {
		return invalid("CREATE and REPLACE need a schema contract, and DROP takes none")
	}
	return checkText("the schema contract", s.SchemaContract, MaxSchemaContract)
}

// checkStore refuses a target whose catalog has gone or moved to another store
// since the request was prepared: its fence would stand in the wrong place.
func checkStore(v View, t Target) *Refusal {
	c := v.Catalog(t.Catalog)
	if c == nil {
		return noCatalog(t.Catalog)
	}
	if StoreFor(c, t.Locator) != t.Store {
		return refuse(CodeInvalid,
			fmt.Sprintf("the store of catalog %q changed while the request was being prepared", t.Catalog),
			"submit it again")
	}
	return nil
}

// CheckFence refuses a target whose index name another job holds. It tells the
// holder's id and nothing of what the holder asked for. To wait alone may be for ever:
// an UNKNOWN holder keeps the name until an operator releases it.
func CheckFence(v interface {
	FenceOwner(FenceKey) (ID, bool)
}, t Target) *Refusal {
	owner, held := v.FenceOwner(t.Fence())
	if !held {
		return nil
	}
	refusal := refuse(CodeFenceHeld, fmt.Sprintf("index name %q is held by job %d", t.IndexName, owner),
		fmt.Sprintf("see what job %d waits for with: lancemaster job explain %d; ask again when it is resolved", owner, owner))
	refusal.Holder = owner
	return refusal
}

// CheckQuotas refuses a target for which the table, its catalog or the cluster
// has as many unresolved jobs as the settings allow.
func CheckQuotas(v interface {
	Settings() Settings
	Unresolved() int
	UnresolvedInCatalog(string) int
	UnresolvedAtTable(TableKey) int
}, t Target) *Refusal {
	s := v.Settings()
	for _, q := range []struct {
		code        Code
		what        string
		held, limit int
		setting     string
		filter      string // of the list that has them
	}{
		// Catalogs may share a store, so the dataset's jobs need not be of this catalog.
		{CodeQuotaTable, "this dataset", v.UnresolvedAtTable(t.TableKey()), s.MaxUnresolvedPerTable, "per_table", ""},
		{CodeQuotaCatalog, fmt.Sprintf("catalog %q", t.Catalog), v.UnresolvedInCatalog(t.Catalog), s.MaxUnresolvedPerCatalog, "per_catalog", " --catalog " + t.Catalog},
		{CodeQuotaGlobal, "the cluster", v.Unresolved(), s.MaxUnresolvedGlobal, "global", ""},
	} {
		if q.held >= q.limit {
			return refuse(q.code, fmt.Sprintf("%s has as many unresolved jobs as are allowed: %d of %d", q.what, q.held, q.limit),
				fmt.Sprintf("list the unresolved jobs with: lancemaster job list --unresolved%s; ask again when some are resolved, or raise admission.max_unresolved_%s", q.filter, q.setting))
		}
	}
	return nil
}
