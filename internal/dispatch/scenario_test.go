package dispatch

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lancemaster/lancemaster/internal/await"
	"github.com/lancemaster/lancemaster/internal/backend"
	"github.com/lancemaster/lancemaster/internal/job"
)

var rewrite = flag.Bool("rewrite", false, "write what happens into the scenario files")

// TestScenarios runs the files of testdata, which read as the contract does. A
// block is commands, a line of dashes, and what happens; `go test -rewrite` writes
// the latter anew. The verbs are in verbs below.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var got strings.Builder
			for _, story := range strings.SplitAfter(string(content), "\n====\n") {
				synctest.Test(t, func(t *testing.T) { got.WriteString(runStory(t, story)) })
			}
			if *rewrite {
				if err := os.WriteFile(file, []byte(got.String()), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			want, have := strings.Split(string(content), "\n"), strings.Split(got.String(), "\n")
			for i := range max(len(want), len(have)) {
				if i >= len(want) || i >= len(have) || want[i] != have[i] {
					t.Fatalf("%s:%d: it happens otherwise than written (go test -rewrite writes it anew):\n%s",
						file, i+1, strings.Join(have[max(0, i-12):min(len(have), i+6)], "\n"))
				}
			}
		})
	}
}

// runStory runs the blocks of one story in a world of its own and returns it as
// it happened.
func runStory(t *testing.T, story string) string {
	w := newWorld(t)
	defer w.end()
	var out strings.Builder
	lines := strings.Split(strings.TrimSuffix(story, "\n"), "\n")
	var result strings.Builder
	for i := 0; i < len(lines); i++ {
		text := lines[i]
		out.WriteString(text + "\n")
		switch {
		case text == "----":
			out.WriteString(result.String())
			result.Reset()
			for i+1 < len(lines) && lines[i+1] != "" {
				i++
			}
		case text == "" || text == "====" || strings.HasPrefix(text, "#"):
		default:
			result.WriteString(w.do(text))
		}
	}
	return out.String()
}

// end stops every node and checks that no secret was logged.
func (w *world) end() {
	for _, n := range w.nodes {
		n.d.Stop()
	}
	for _, secret := range w.sent {
		if strings.Contains(w.logs.String(), secret) {
			w.t.Error("an invocation secret is in the log")
		}
	}
}

// do runs one command and returns what came of it once nothing moves any more.
func (w *world) do(text string) string {
	words := strings.Fields(text)
	verb := verbs[words[0]]
	if verb == nil {
		w.t.Fatalf("no verb %q", words[0])
	}
	answer := verb(w, parseArgs(words[1:]))
	synctest.Wait()
	return w.drain() + answer
}

// args are a command's words and its key=value pairs.
type args struct {
	words  []string
	values map[string]string
}

func parseArgs(words []string) args {
	a := args{values: map[string]string{}}
	for _, word := range words {
		if key, value, ok := strings.Cut(word, "="); ok {
			a.values[key] = value
		} else {
			a.words = append(a.words, word)
		}
	}
	return a
}

func (a args) get(key, otherwise string) string {
	if v, ok := a.values[key]; ok {
		return v
	}
	return otherwise
}

func (w *world) id(a args) job.ID {
	n, err := strconv.ParseInt(a.words[0], 10, 64)
	if err != nil {
		w.t.Fatal(err)
	}
	return job.ID(n)
}

func (w *world) duration(s string) time.Duration {
	d, err := time.ParseDuration(s)
	if err != nil {
		w.t.Fatal(err)
	}
	return d
}

var verbs map[string]func(*world, args) string

func init() {
	verbs = map[string]func(*world, args) string{
		// elect makes a master the leader of a new term: it catches up, begins the term
		// in the journal and starts its dispatcher. The old leader has not noticed.
		"elect": func(w *world, a args) string { w.elect(a.words[0]); return "" },
		// depose ends the term; nobody leads, and nobody has noticed.
		"depose": func(w *world, _ args) string { w.depose(); return "" },
		// stop ends a master's term in good order; it may take as long as Stop may.
		"stop": func(w *world, a args) string { w.node(a.words[0]).d.Stop(); return "" },
		// crash ends a master's process: what it had in memory is gone.
		"crash": func(w *world, a args) string { w.crash(a.words[0]); return "" },

		"admit":  func(w *world, a args) string { w.admit(a); return "" },
		"cancel": func(w *world, a args) string { w.operate(job.Cancel{Header: w.header(), Job: w.id(a)}); return "" },
		"report": func(w *world, a args) string { w.report(w.id(a), a); return "" },

		// backend adds, drains or removes a backend, or says how it behaves from now on.
		"backend":   backendVerb,
		"heartbeat": func(w *world, a args) string { w.heartbeat(job.BackendID(w.id(a)), a); return "" },
		// journal says what becomes of the next proposals of a command: not-appended;
		// lost; late (lost, and applied by the next barrier); applied-lost; takes:3s; waits.
		"journal": func(w *world, a args) string { w.script(a.words[0], a.words[1:]); return "" },
		"read":    func(w *world, a args) string { w.script("READ", a.words); return "" },
		"barrier": func(w *world, a args) string { w.script("BARRIER", a.words); return "" },
		// go-on opens a gate at which something waits.
		"go-on": func(w *world, a args) string { w.goOn(strings.Join(a.words, " ")); return "" },

		"set":       settingVerb,
		"catalog":   catalogVerb,
		"secret":    secretVerb,
		"refresher": func(w *world, a args) string { w.mu.Lock(); w.refresher = a.words[0]; w.mu.Unlock(); return "" },
		"refresh":   func(w *world, a args) string { w.script("REFRESH "+a.words[0], a.words[1:]); return "" },
		"masters":   func(w *world, a args) string { w.mu.Lock(); w.members = int(w.id(a)); w.mu.Unlock(); return "" },
		"clocks":    func(w *world, a args) string { w.mu.Lock(); w.agree = a.words[0] == "agree"; w.mu.Unlock(); return "" },

		"advance": func(w *world, a args) string {
			await.Pass(w.duration(a.words[0]))
			return ""
		},
		// suspend lets the machine sleep: only the clock that counts suspend moves.
		"suspend": func(w *world, a args) string {
			w.mu.Lock()
			w.suspend += w.duration(a.words[0])
			w.mu.Unlock()
			return ""
		},
		"wake": func(w *world, _ args) string {
			for _, n := range w.nodes {
				n.d.Wake()
			}
			return ""
		},
		"jobs":    jobsVerb,
		"sends":   sendsVerb,
		"explain": explainVerb,
	}
}

func (w *world) elect(name string) {
	n := w.node(name)
	w.mu.Lock()
	w.term++
	w.leader = name
	term := w.term
	w.say(0, "%s leads term %d", name, term)
	w.catchUp()
	w.state.Position.Term = term
	if _, refusal := w.apply(job.TermStart{Header: w.header(), Term: term}); refusal != nil {
		w.t.Error(refusal)
	}
	for _, b := range w.backends {
		b.status = backend.Status{}
	}
	for id := range w.backends {
		w.beat(id, w.backends[id].process, "10.0.0.1:9050", time.Now())
	}
	w.mu.Unlock()
	n.d.Stop()
	if err := n.d.Start(context.Background(), term); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) depose() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.term++
	w.leader = ""
}

func (w *world) crash(name string) {
	n := w.node(name)
	w.mu.Lock()
	n.dead = true
	if w.leader == name {
		w.leader = ""
	}
	delete(w.nodes, name)
	w.mu.Unlock()
	n.d.Stop()
	w.mu.Lock()
	w.lines = slices.DeleteFunc(w.lines, func(l line) bool { return strings.Contains(l.text, "barrier of "+name) })
	w.mu.Unlock()
}

func (w *world) admit(a args) {
	w.mu.Lock()
	next := w.state.Cluster().NextJob
	catalog := w.state.Catalog(a.get("catalog", "lake"))
	w.mu.Unlock()
	locator := a.get("locator", fmt.Sprintf("s3://bucket/t%d", next))
	name := a.get("index", fmt.Sprintf("idx%d", next))
	w.operate(job.Admit{
		Header: w.header(),
		Target: job.Target{
			Catalog: catalog.Name, Store: job.StoreFor(catalog, locator), Database: "db", Table: "t", Provider: job.Provider,
			Locator: locator, IndexName: name, IndexKey: name,
		},
		Spec: job.Spec{
			Mutation: job.MutationCreate, IndexType: job.IndexBTree, Column: "id", MaxNumPartitions: 4096, MaxNumSubVectors: 256,
			ExecuteDeadline: w.duration(a.get("deadline", "1h")).Milliseconds(),
		},
		Snapshot: job.Snapshot{DatasetVersion: 1, SchemaContract: a.get("contract", "{}"), Source: job.SnapshotCaller},
	})
}

// operate applies a command that came by another way than the dispatcher's.
func (w *world) operate(c job.Command) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c, ok := c.(job.Cancel); ok {
		c.Expected = w.state.Job(c.Job).Revision
		_, _ = w.apply(c) // a refusal is in the log
		return
	}
	_, _ = w.apply(c)
}

// report is a backend's authenticated report: the report service closes the latch,
// unless it is latch=forgotten, and journals the result.
func (w *world) report(id job.ID, a args) {
	w.mu.Lock()
	rec := w.state.Job(id)
	leader := w.nodes[w.leader]
	w.mu.Unlock()
	if a.get("latch", "") != "forgotten" && leader != nil && leader.sends.Close(id, rec.Dispatch.InvocationID) {
		w.tell(id, "the report closes the latch")
	}
	code := job.CodeNoTrustedResult
	for c := job.CodeStaleAdmission; c <= job.CodeNativeInternal; c++ {
		if c.String() == a.words[1] {
			code = c
		}
	}
	proof := job.ProofNone
	if a.get("proof", "") == "CHILD_REAPED" {
		proof = job.ProofChildReaped
	}
	identity := identityOf(rec)
	if rec.State == job.StateUnknown {
		w.operate(job.RecordLateResult{Header: w.header(), Identity: identity, Code: code, Proof: proof, Message: "as reported"})
		return
	}
	w.operate(job.Complete{Header: w.header(), Identity: identity, Code: code, Proof: proof, Message: "as reported"})
}

func backendVerb(w *world, a args) string {
	if a.words[0] == "add" {
		next := len(w.backends) + 1
		answer := w.must(job.AddBackend{Header: w.header(), Address: job.Address{
			Host: fmt.Sprintf("be%d", next), BePort: 9060, HeartbeatPort: 9050,
		}})
		w.mu.Lock()
		w.backends[answer.Backend.ID] = &fakeBackend{process: 100}
		w.beat(answer.Backend.ID, 100, "10.0.0.1:9050", time.Now())
		w.mu.Unlock()
		return wakeAll(w)
	}
	id := job.BackendID(w.id(a))
	if len(a.words) > 1 {
		switch a.words[1] {
		case "drain":
			w.must(job.SetBackendState{Header: w.header(), Backend: id, State: job.BackendDraining})
		case "undrain":
			w.must(job.SetBackendState{Header: w.header(), Backend: id, State: job.BackendActive})
		case "silent", "falters": // falters: the newest heartbeat alone was not answered
			w.mu.Lock()
			w.backends[id].status.Alive = w.backends[id].status.Alive && a.words[1] == "falters"
			w.backends[id].status.LastError = "no answer in time"
			w.mu.Unlock()
		}
		return wakeAll(w)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	b := w.backends[id]
	b.dial, b.answer, b.addr = a.get("dial", b.dial), a.get("answer", b.answer), a.get("addr", b.addr)
	return ""
}

func wakeAll(w *world) string { return verbs["wake"](w, args{}) }

// heartbeat is an OK answer: epoch=N, addr=IP:PORT, and asked=3s for one that was
// asked for so long ago.
func (w *world) heartbeat(id job.BackendID, a args) {
	epoch, err := strconv.ParseInt(a.get("epoch", "100"), 10, 64)
	if err != nil {
		w.t.Fatal(err)
	}
	asked := time.Now().Add(-w.duration(a.get("asked", "0s")))
	w.mu.Lock()
	if asked.Equal(time.Now()) {
		w.backends[id].process = max(w.backends[id].process, epoch)
	}
	w.beat(id, epoch, a.get("addr", "10.0.0.1:9050"), asked)
	w.mu.Unlock()
	wakeAll(w)
}

// beat keeps one observation. w.mu is held.
func (w *world) beat(id job.BackendID, epoch int64, addr string, asked time.Time) {
	s := &w.backends[id].status
	s.Backend, s.Term, s.Alive, s.LastOK, s.ProcessEpoch, s.RemoteAddr = id, w.term, true, time.Now(), epoch, addr
	s.LastError = ""
	if asked.After(s.OKAsked) {
		s.OKAsked = asked
	}
	s.Observations = append(s.Observations, backend.Observation{
		ProcessEpoch: epoch, RemoteAddr: addr, Term: w.term, RequestedAt: asked,
	})
}

func (w *world) script(what string, how []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answers[what] = append(w.answers[what], how...)
}

func (w *world) goOn(gate string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.gates[gate] == nil {
		w.t.Fatalf("nothing waits at %q", gate)
	}
	close(w.gates[gate])
	delete(w.gates, gate)
}

func settingVerb(w *world, a args) string {
	for name, value := range a.values {
		w.must(job.ChangeSettings{Header: w.header(), Values: []job.SettingValue{{Name: name, Value: value}}})
	}
	return wakeAll(w)
}

// catalogVerb changes a catalog: refresher=http, secret=REF, timeout=5s.
func catalogVerb(w *world, a args) string {
	name := a.words[0]
	w.mu.Lock()
	c := job.Catalog{Name: name, Options: []job.Option{{Key: "endpoint", Value: "http://store:9000"}},
		Refresher: job.Refresher{Kind: job.RefresherNone}}
	var expected int64
	if old := w.state.Catalog(name); old != nil {
		c, expected = *old, old.Revision
	}
	w.mu.Unlock()
	if ref := a.get("secret", ""); ref != "" {
		c.Options = append(slices.Clone(c.Options), job.Option{Key: "secret_access_key", Ref: ref})
	}
	if kind := a.get("refresher", ""); kind != "" {
		c.Refresher = job.Refresher{Kind: job.RefresherKind(kind), URL: "http://refresh"}
	}
	if timeout := a.get("timeout", ""); timeout != "" {
		c.Refresher.TimeoutMS = w.duration(timeout).Milliseconds()
	}
	w.must(job.PutCatalog{Header: w.header(), Expected: expected, Catalog: c})
	return wakeAll(w)
}

// secretVerb says what a reference resolves to: a value, takes:3s, hangs, waits,
// long:BYTES, or missing.
func secretVerb(w *world, a args) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	for ref, value := range a.values {
		switch n, long := strings.CutPrefix(value, "long:"); {
		case value == "missing":
			delete(w.secrets, ref)
		case long:
			count, err := strconv.Atoi(n)
			if err != nil {
				w.t.Error(err)
			}
			w.secrets[ref] = strings.Repeat("s", count)
		default:
			w.secrets[ref] = value
		}
	}
	return ""
}

func jobsVerb(w *world, _ args) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var b strings.Builder
	for _, r := range w.state.All() {
		fmt.Fprintf(&b, "job %d: %s, refresh %s", r.ID, r.State, r.Refresh.State)
		if r.HoldsFence() {
			b.WriteString(", fence")
		}
		if r.HoldsSlot() {
			fmt.Fprintf(&b, ", slot on backend %d", r.Dispatch.BackendID)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// sendsVerb counts the sends that each process remembers.
func sendsVerb(w *world, _ args) string {
	names := []string{}
	for name := range w.nodes {
		names = append(names, name)
	}
	slices.Sort(names)
	var b strings.Builder
	for _, name := range names {
		fmt.Fprintf(&b, "%s remembers %d\n", name, len(w.nodes[name].sends.all()))
	}
	return b.String()
}

func explainVerb(w *world, a args) string {
	w.mu.Lock()
	n := w.nodes[w.leader]
	rec := w.state.Job(w.id(a))
	w.mu.Unlock()
	if n == nil {
		return "nobody leads\n"
	}
	x, ok := n.d.Explain(rec)
	if !ok {
		return "nothing is known\n"
	}
	var b strings.Builder
	fmt.Fprintln(&b, strings.TrimSpace(fmt.Sprintf("job %d: %s", x.Job, x.Reason)))
	if x.LastError != "" {
		fmt.Fprintf(&b, "  error: %s\n", x.LastError)
	}
	if !x.NextTry.IsZero() {
		fmt.Fprintf(&b, "  next try in %s\n", time.Until(x.NextTry).Round(time.Millisecond))
	}
	if !x.Deadline.IsZero() {
		fmt.Fprintf(&b, "  deadline in %s\n", time.Until(x.Deadline).Round(time.Millisecond))
	}
	if !x.SendEnded.IsZero() {
		fmt.Fprintf(&b, "  heard since %s ago: %v\n", time.Since(x.SendEnded).Round(time.Millisecond), x.Heard)
	}
	return b.String()
}
