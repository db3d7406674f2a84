package job_test

import (
	"maps"

	"pgregory.net/rapid"

	"github.com/lancemaster/lancemaster/internal/job"
)

// registry is about members and tokens.
func (w *world) registry(t *rapid.T) {
	w.begin(t)
	id := rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "node")
	token := rapid.SampledFrom([]string{"t", "u", "v"}).Draw(t, "token")
	switch rapid.IntRange(0, 7).Draw(t, "registry") {
	case 0:
		c := job.RemoveMember{Header: w.head(), NodeID: id}
		w.apply(c, w.model.removeMember(c))
	case 1, 2, 3, 4:
		c := job.PutMember{
			Header: w.head(), NodeID: id,
			InstanceID: rapid.SampledFrom([]string{"i1", "i2", "instance-" + id, "instance-b"}).Draw(t, "instance"),
			Address:    rapid.SampledFrom([]string{"h:1", "h:2", id + ".example:9010"}).Draw(t, "address"),
		}
		if rapid.Bool().Draw(t, "replaces") {
			c.Replaces = w.model.members[id][0]
		}
		w.apply(c, w.model.putMember(c))
	case 5:
		c := job.RemoveToken{Header: w.head(), Token: token}
		w.apply(c, w.model.removeToken(c))
	default:
		c := job.PutToken{
			Header: w.head(), Token: token, Role: job.Role(rapid.IntRange(1, 4).Draw(t, "role")),
			Hash: job.Hash{byte(rapid.IntRange(1, 5).Draw(t, "hash"))},
		}
		w.apply(c, w.model.putToken(c))
	}
}

// reopen asks for it where there is something to reopen, as a rule.
func (w *world) reopen(t *rapid.T) {
	w.begin(t)
	if !w.model.quarantined && rapid.IntRange(0, 9).Draw(t, "needless") > 0 {
		return
	}
	w.now += rapid.SampledFrom([]job.Millis{0, 0, 0, 9_990, 10_000}).Draw(t, "wait")
	c := job.Reopen{
		Header: w.head(), Note: rapid.SampledFrom([]string{"n", "n", "n", ""}).Draw(t, "note"),
		MastersStopped:    rapid.IntRange(0, 9).Draw(t, "masters") > 0,
		BackendsRestarted: rapid.IntRange(0, 9).Draw(t, "backends") > 0,
	}
	w.apply(c, w.model.reopen(c))
}

// checkRegistry compares members, tokens and the quarantine with the model.
func (w *world) checkRegistry() {
	members := map[string][2]string{}
	for _, m := range w.state.Members() {
		members[m.NodeID] = [2]string{m.InstanceID, m.Address}
		if m != w.state.Member(m.NodeID) || m.RegisteredAt == 0 || m.AddedAt == 0 || m.AddedBy == "" {
			w.t.Fatalf("member %+v, found as %+v", *m, w.state.Member(m.NodeID))
		}
	}
	tokens := map[string]modelToken{}
	for _, k := range w.state.Tokens() {
		tokens[k.Name] = modelToken{k.Role.String(), k.Hash[0]}
		if k != w.state.Token(k.Name) || k.CreatedAt == 0 || k.CreatedBy == "" {
			w.t.Fatalf("token %+v, found as %+v", *k, w.state.Token(k.Name))
		}
	}
	if !maps.Equal(members, w.model.members) || !maps.Equal(tokens, w.model.tokens) {
		w.t.Fatalf("members %v, tokens %v; the model says %v, %v", members, tokens, w.model.members, w.model.tokens)
	}
	if c := w.state.Cluster(); c.Quarantined != w.model.quarantined || c.Incarnation != w.model.incarnation || len(members) == 0 {
		w.t.Fatalf("the cluster is %+v, the model says quarantined %v, incarnation %d", c, w.model.quarantined, w.model.incarnation)
	}
	if c := w.state.Cluster(); c.Quarantined && (w.state.Settings().AdmissionEnabled || !w.state.Settings().DispatchPaused) {
		w.t.Fatalf("quarantined, and open or not paused: %+v", w.state.Settings())
	}
}
