package job_test

import (
	"cmp"
	"slices"
	"strings"

	"github.com/lancemaster/lancemaster/internal/job"
	"github.com/lancemaster/lancemaster/internal/job/jobtest"
)

// command makes a command of a line.
func (s *scenario) command(a args) job.Command {
	switch a.word(0) {
	case "form":
		return s.form(a)
	case "admit":
		return s.admit(a)
	case "mark-running":
		return s.markRunning(a)
	case "complete":
		return job.Complete{
			Header: s.head(), Identity: s.identity(a), Code: resultCode(a), Message: a.text("msg", ""),
			MetadataAdvanced: a.has("advanced"), Proof: proofArg(a), NotEnqueued: a.has("not-enqueued"),
		}
	case "late":
		return job.RecordLateResult{
			Header: s.head(), Identity: s.identity(a), Code: resultCode(a), Message: a.text("msg", ""),
			MetadataAdvanced: a.has("advanced"), Proof: proofArg(a),
		}
	case "terminate":
		return s.terminate(a)
	default:
		return s.operatorCommand(a)
	}
}

func (s *scenario) operatorCommand(a args) job.Command {
	switch a.word(0) {
	case "cancel":
		id, rev := s.job(a)
		return job.Cancel{Header: s.head(), Job: id, Expected: rev, Note: a.text("note", "")}
	case "reject":
		id, rev := s.job(a)
		return job.RejectBeforeDispatch{Header: s.head(), Job: id, Expected: rev, Message: a.text("msg", "")}
	case "refresh-start":
		id, rev := s.job(a)
		return job.RefreshStart{Header: s.head(), Job: id, Expected: rev}
	case "refresh-done":
		id, _ := s.job(a)
		return job.RefreshFinish{Header: s.head(), Job: id, Attempt: a.number("attempt", 1), Evidence: a.text("evidence", "answered 200")}
	case "refresh-failed":
		id, _ := s.job(a)
		return job.RefreshFinish{
			Header: s.head(), Job: id, Attempt: a.number("attempt", 1), Failed: true, Message: a.text("msg", "answered 500"),
		}
	case "force-release":
		id, rev := s.job(a)
		return job.ForceRelease{
			Header: s.head(), Job: id, Expected: rev, Note: a.text("note", "host burnt"),
			Warning: a.text("warning", job.ForceReleaseWarning),
		}
	case "release-slot":
		id, rev := s.job(a)
		return job.ReleaseSlot{Header: s.head(), Job: id, Expected: rev, Note: a.text("note", "seen dead")}
	case "quarantine":
		return job.Quarantine{
			Header: s.head(), Incarnation: a.parse(a.word(1)), Cause: a.text("cause", "restored from a backup"),
			Members: s.members(a, s.registered()),
		}
	case "term-start":
		return termStart(s.head(), uint64(a.parse(a.word(1))), a.text("version", ""))
	case "remove-resolved":
		return job.RemoveResolved{
			Header: s.head(), Before: s.now - a.duration(a.text("older", "0s")), Limit: int32(a.number("limit", 10)),
		}
	default:
		return s.tableCommand(a)
	}
}

func (s *scenario) tableCommand(a args) job.Command {
	switch a.word(0) {
	case "catalog":
		return s.catalog(a)
	case "remove-catalog":
		return job.RemoveCatalog{Header: s.head(), Catalog: a.word(1)}
	case "backend":
		return s.backend(a)
	case "drain":
		return job.SetBackendState{Header: s.head(), Backend: job.BackendID(a.parse(a.word(1))), State: job.BackendDraining}
	case "undrain":
		return job.SetBackendState{Header: s.head(), Backend: job.BackendID(a.parse(a.word(1))), State: job.BackendActive}
	case "backend-state":
		return job.SetBackendState{
			Header: s.head(), Backend: job.BackendID(a.parse(a.word(1))), State: job.BackendState(a.parse(a.word(2))),
		}
	case "remove-backend":
		return job.RemoveBackend{Header: s.head(), Backend: job.BackendID(a.parse(a.word(1)))}
	case "set", "reset":
		return s.set(a)
	case "raise-level":
		return job.RaiseLevel{Header: s.head(), Level: int32(a.parse(a.word(1))), Defaults: settingValues(a)}
	default:
		return s.registryCommand(a)
	}
}

func (s *scenario) registryCommand(a args) job.Command {
	switch a.word(0) {
	case "reopen":
		return job.Reopen{
			Header: s.head(), Note: a.text("note", "all restarted"),
			MastersStopped: !a.has("masters-run"), BackendsRestarted: !a.has("backends-run"),
		}
	case "member":
		m := memberNamed(a.text("id", ""))
		if len(a.words) > 1 {
			m = memberNamed(a.word(1))
		}
		return job.PutMember{
			Header: s.head(), NodeID: m.NodeID, InstanceID: a.text("instance", m.InstanceID), Address: a.text("at", m.Address),
			Replaces: a.text("replaces", ""),
		}
	case "remove-member":
		return job.RemoveMember{Header: s.head(), NodeID: a.word(1)}
	case "token":
		role, _ := job.ParseRole(a.text("role", "read"))
		return job.PutToken{Header: s.head(), Token: a.text("name", a.words[len(a.words)-1]), Role: role, Hash: job.Hash{byte(a.number("hash", 1))}}
	case "remove-token":
		return job.RemoveToken{Header: s.head(), Token: a.word(1)}
	}
	c := s.laterCommand(a)
	if c == nil {
		s.t.Fatalf("%q is no command of the scenarios", s.line)
	}
	return c
}

// members takes members=A,B@INSTANCE@HOST:PORT,...; what is left out of one follows
// from its node id.
func (s *scenario) members(a args, otherwise string) []job.Member {
	var members []job.Member
	for word := range strings.SplitSeq(a.text("members", otherwise), ",") {
		if word == "" {
			continue
		}
		parts := strings.SplitN(word, "@", 3)
		m := memberNamed(parts[0])
		if len(parts) > 1 {
			m.InstanceID = parts[1]
		}
		if len(parts) > 2 {
			m.Address = parts[2]
		}
		members = append(members, m)
	}
	return members
}

func memberNamed(id string) job.Member { return jobtest.Members(id)[0] }

// registered are the present members in the form of members=.
func (s *scenario) registered() string {
	var words []string
	for _, m := range s.state.Members() {
		words = append(words, m.NodeID+"@"+m.InstanceID+"@"+m.Address)
	}
	return strings.Join(words, ",")
}

func (s *scenario) form(a args) job.Command {
	settings := job.DefaultSettings()
	settings = slices.DeleteFunc(settings, func(v job.SettingValue) bool { return v.Name == a.keys["without"] })
	for i, v := range settings {
		settings[i].Value = a.text(v.Name, v.Value)
	}
	if a.has("twice") {
		settings[1] = settings[0]
	}
	return job.Form{
		Header: s.head(), ClusterID: int32(a.number("id", 7)), Level: int32(a.number("level", 1)), Settings: settings,
		Members: s.members(a, "master-1"),
	}
}

// admit takes the target and the spec of an everyday job and what the line changes
// of it.
func (s *scenario) admit(a args) job.Command {
	h := s.head()
	h.Actor = a.text("as", h.Actor)
	name, locator := a.word(1), a.text("loc", "file:///d/t.lance")
	mutation, _ := job.ParseMutation(strings.ToUpper(a.word(2)))
	c := job.Admit{
		Header: h, RequestID: a.text("request", ""),
		Target: job.Target{
			Catalog: a.text("catalog", "local"), Store: a.text("store", "file"), Database: a.text("db", "db"),
			Table: a.text("table", "t"), Provider: a.text("provider", job.Provider), Locator: locator,
			IndexName: name, IndexKey: a.text("key", job.NormalizeIndexName(name)),
		},
		Spec: job.Spec{
			Mutation: mutation, IfNotExists: a.has("if-not-exists"), IfExists: a.has("if-exists"),
			MaxNumPartitions: int32(a.number("partitions", 4096)), MaxNumSubVectors: int32(a.number("sub-vectors", 256)),
			ExecuteDeadline: a.number("deadline", 3_600_000),
		},
		Snapshot: job.Snapshot{
			DatasetVersion: a.number("version", 3),
			Source:         job.SnapshotSource(a.number("source", int64(job.SnapshotManifest))),
		},
	}
	if c.RequestID != "" {
		c.RequestHash = job.Hash{byte(a.number("body", 1))}
	}
	if mutation != job.MutationDrop {
		c.Spec.IndexType, c.Spec.Column = job.IndexBTree, "id"
		c.Snapshot.SchemaContract = `{"scv":1,"flds":[]}`
	}
	c.Spec.IndexType = job.IndexType(a.text("type", string(c.Spec.IndexType)))
	c.Spec.Column = a.text("column", c.Spec.Column)
	c.Spec.PropertiesJSON = a.text("properties", "")
	c.Snapshot.SchemaContract = a.text("contract", c.Snapshot.SchemaContract)
	return c
}

func (s *scenario) markRunning(a args) job.Command {
	id, rev := s.job(a)
	return job.MarkRunning{
		Header: s.head(), Job: id, Expected: rev, Backend: job.BackendID(a.number("backend", 1)),
		ProcessEpoch: a.number("epoch", 500), InvocationID: a.text("inv", "inv-"+a.word(1)),
		SecretHash: job.Hash{byte(a.number("secret", 9))}, DeadlineAt: s.now + a.duration(a.text("deadline", "1h")),
	}
}

func (s *scenario) terminate(a args) job.Command {
	id := s.identity(a)
	backend := job.BackendID(1)
	if r := s.state.Job(id.Job); r != nil {
		backend = r.Dispatch.BackendID
	}
	return job.RecordTermination{
		Header: s.head(), Identity: id, Backend: job.BackendID(a.number("backend", int64(backend))), Proof: proofNamed(a.word(2)),
	}
}

// catalog takes option.KEY=VALUE and ref.KEY=REFERENCE, and the refresher's fields
// under their own names.
func (s *scenario) catalog(a args) job.Command {
	c := job.Catalog{Name: a.text("name", ""), Store: a.text("store", ""), Refresher: job.Refresher{
		Kind: job.RefresherKind(a.text("refresher", "")), URL: a.text("url", ""), User: a.text("user", ""),
		PasswordRef: a.text("password", ""), CARef: a.text("ca", ""), TLS: a.has("tls"), TimeoutMS: a.number("timeout", 0),
	}}
	if len(a.words) > 1 {
		c.Name = a.word(1)
	}
	if list := a.text("frontends", ""); list != "" {
		c.Refresher.Frontends = strings.Split(list, ",")
	}
	for _, p := range a.pairs {
		if key, ok := strings.CutPrefix(p.Key, "option."); ok {
			c.Options = append(c.Options, job.Option{Key: key, Value: p.Value})
		}
		if key, ok := strings.CutPrefix(p.Key, "ref."); ok {
			c.Options = append(c.Options, job.Option{Key: key, Ref: p.Value})
		}
	}
	if !a.has("as-given") {
		slices.SortStableFunc(c.Options, func(a, b job.Option) int { return cmp.Compare(a.Key, b.Key) })
	}
	return job.PutCatalog{Header: s.head(), Expected: a.number("rev", 0), Catalog: c}
}

func (s *scenario) backend(a args) job.Command {
	c := job.AddBackend{Header: s.head(), Address: job.Address{
		Host: a.text("host", ""), BePort: int32(a.number("port", 9060)), HeartbeatPort: int32(a.number("heartbeat", 9050)),
	}}
	if len(a.words) > 1 {
		c.Address.Host = a.word(1)
	}
	for _, p := range a.pairs {
		if key, ok := strings.CutPrefix(p.Key, "label."); ok {
			c.Labels = append(c.Labels, job.Label{Key: key, Value: p.Value})
		}
	}
	return c
}

// set takes NAME=VALUE in any order; set as-given keeps the order.
func (s *scenario) set(a args) job.Command {
	return job.ChangeSettings{Header: s.head(), Values: settingValues(a), Reset: a.word(0) == "reset"}
}

func settingValues(a args) []job.SettingValue {
	var values []job.SettingValue
	for _, p := range a.pairs {
		values = append(values, job.SettingValue{Name: p.Key, Value: p.Value})
	}
	if !a.has("as-given") {
		slices.SortFunc(values, func(a, b job.SettingValue) int { return cmp.Compare(a.Name, b.Name) })
	}
	return values
}

func resultCode(a args) job.ResultCode {
	for c := range job.ResultCode(200) {
		if c.Valid() && c.String() == a.word(2) {
			return c
		}
	}
	return job.ResultCode(a.parse(a.word(2)))
}

func proofArg(a args) job.Proof {
	if v, ok := a.keys["proof"]; ok {
		return proofNamed(v)
	}
	return job.ProofNone
}

// proofNamed returns the proof of a name, and 77, which is none, for another.
func proofNamed(name string) job.Proof {
	for p := range job.Proof(200) {
		if p.Valid() && p.String() == name {
			return p
		}
	}
	return 77
}
