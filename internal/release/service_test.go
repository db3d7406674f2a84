package release_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lancemaster/lancemaster/internal/await"
	"github.com/lancemaster/lancemaster/internal/job"
	"github.com/lancemaster/lancemaster/internal/job/jobtest"
	"github.com/lancemaster/lancemaster/internal/lance"
	"github.com/lancemaster/lancemaster/internal/release"
)

// bench is a master of one in memory. It writes down what the service did, in order.
type bench struct {
	*release.Service
	state *jobtest.State
	now   time.Time
	did   []string

	sending bool
	// clockDisagrees is what the masters' clocks do.
	clockDisagrees bool
	open           error
	refresh        error
	// during runs while the refresher does.
	during func()
	ctx    context.Context // the newest that the dataset or the refresher got
}

const minute = time.Minute

// newBench has job 1 UNKNOWN, RUNNING since now, on a file: dataset.
func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{state: jobtest.Formed(), now: time.UnixMilli(1_700_000_000_000)}
	b.Service = release.New(release.Config{
		State: b, Journal: b, Now: func() time.Time { return b.now },
		Sending:     func(id job.ID) bool { return b.sending && id == 1 },
		ClockAgrees: func() bool { return !b.clockDisagrees },
		Open: func(ctx context.Context, locator string) (*lance.Dataset, error) {
			b.did, b.ctx = append(b.did, "read "+locator), ctx
			return &lance.Dataset{Version: 3}, b.open
		},
		Refresh: func(ctx context.Context, catalog *job.Catalog, rec *job.Record) error {
			b.did, b.ctx = append(b.did, fmt.Sprintf("refresh %s for job %d", catalog.Name, rec.ID)), ctx
			if b.during != nil {
				b.during()
			}
			return b.refresh
		},
	})
	b.must(t, job.ChangeSettings{Header: b.head(), Values: []job.SettingValue{{Name: "admission.enabled", Value: "true"}}})
	b.must(t, job.PutCatalog{Header: b.head(), Catalog: job.Catalog{Name: "c", Refresher: job.Refresher{Kind: job.RefresherNone}}})
	b.must(t, job.AddBackend{Header: b.head(), Address: job.Address{Host: "b", BePort: 9060, HeartbeatPort: 9050}})
	b.unknown(t, "file:///data/t", "idx")
	return b
}

func (b *bench) head() job.Header {
	return job.Header{At: job.Millis(b.now.UnixMilli()), Actor: "test"}
}

func (b *bench) apply(c job.Command) (job.Change, *job.Refusal) { return b.state.Apply(c) }

func (b *bench) must(t *testing.T, c job.Command) job.Answer {
	t.Helper()
	change, refusal := b.apply(c)
	if refusal != nil {
		t.Fatalf("%s: %v", c.Name(), refusal)
	}
	return change.Answer
}

func (b *bench) Read(show func(*job.Live))          { show(b.state.Live) }
func (b *bench) Job(id job.ID) (*job.Record, error) { return b.state.Job(id), nil }

func (b *bench) Propose(_ context.Context, c job.Command) (job.Answer, error) {
	b.did = append(b.did, c.Name())
	change, refusal := b.apply(c)
	if refusal != nil {
		return job.Answer{}, refusal
	}
	return change.Answer, nil
}

func (b *bench) admit(t *testing.T, locator, index string) *job.Record {
	t.Helper()
	return b.must(t, job.Admit{
		Header: b.head(),
		Target: job.Target{
			Catalog: "c", Store: job.LocatorScheme(locator), Database: "d", Table: "t", Provider: job.Provider, Locator: locator,
			IndexName: index, IndexKey: index,
		},
		Spec:     job.Spec{Mutation: job.MutationDrop, MaxNumPartitions: 1, MaxNumSubVectors: 1, ExecuteDeadline: 3_600_000},
		Snapshot: job.Snapshot{DatasetVersion: 1, Source: job.SnapshotManifest},
	}).Job
}

func (b *bench) running(t *testing.T, locator, index string) *job.Record {
	t.Helper()
	r := b.admit(t, locator, index)
	return b.must(t, b.markRunning(r)).Job
}

func (b *bench) markRunning(r *job.Record) job.MarkRunning {
	return job.MarkRunning{
		Header: b.head(), Job: r.ID, Expected: r.Revision, Backend: 1, ProcessEpoch: 7, InvocationID: "inv",
		SecretHash: job.Hash{1}, DeadlineAt: b.head().At + 1000,
	}
}

func (b *bench) unknown(t *testing.T, locator, index string) *job.Record {
	t.Helper()
	r := b.running(t, locator, index)
	return b.must(t, job.Complete{Header: b.head(), Identity: identity(r), Code: job.CodeNoTrustedResult, Proof: job.ProofNone}).Job
}

func identity(r *job.Record) job.Identity {
	return job.Identity{Job: r.ID, Revision: r.Dispatch.Revision, InvocationID: r.Dispatch.InvocationID, ProcessEpoch: r.Dispatch.ProcessEpoch}
}

func (b *bench) ask(id job.ID, note string) (*job.Record, error) {
	return b.ForceRelease(context.Background(), "ada", id, nil, note)
}

func (b *bench) wantDid(t *testing.T, want ...string) {
	t.Helper()
	if !slices.Equal(b.did, want) {
		t.Errorf("it did %q, want %q", b.did, want)
	}
}

func wantCode(t *testing.T, err error, code job.Code) *job.Refusal {
	t.Helper()
	refusal, ok := job.AsRefusal(err)
	if !ok || refusal.Code != code {
		t.Fatalf("the error is %v, want %s", err, code)
	}
	if refusal.Next == "" {
		t.Errorf("%v does not say what to do next", refusal)
	}
	return refusal
}

// The wait of this contract's defaults: the longest send window and backend.rpc_timeout.
const wait = 10*time.Second + minute

func TestForceRelease(t *testing.T) {
	b := newBench(t)
	b.now = b.now.Add(wait)
	rec, err := b.ask(1, "it burned")
	if err != nil {
		t.Fatal(err)
	}
	b.wantDid(t, "read file:///data/t", "refresh c for job 1", "FORCE_RELEASE")
	r := rec.ForceRelease
	if r == nil || r.Actor != "ada" || r.Note != "it burned" || r.At != b.head().At || r.Warning != job.ForceReleaseWarning {
		t.Errorf("the release is %+v", r)
	}
	if rec.State != job.StateUnknown || rec.Open() {
		t.Errorf("the job is %s, open %v; want UNKNOWN that holds nothing", rec.State, rec.Open())
	}
	b.admit(t, "file:///data/t", "idx") // the name is free
}

// Each refusal comes before whatever follows it in the order, however much else is
// wrong, and nothing is released.
func TestOrder(t *testing.T) {
	long := strings.Repeat("n", job.MaxNote+1)
	stale := job.Revision(1)
	for _, c := range []struct {
		name     string
		spoil    func(t *testing.T, b *bench)
		id       job.ID
		expected *job.Revision
		note     string
		code     job.Code
		did      []string
	}{
		{name: "no such job", id: 9, code: job.CodeNotFound},
		{name: "not UNKNOWN", id: 2, code: job.CodeWrongState, spoil: func(t *testing.T, b *bench) { b.running(t, "file:///data/t", "other") }},
		{name: "another revision", id: 1, expected: &stale, code: job.CodeRevisionMismatch},
		{name: "no note", id: 1, code: job.CodeInvalid},
		{name: "a blank note", id: 1, note: " \t", code: job.CodeInvalid},
		{name: "a long note", id: 1, note: long, code: job.CodeInvalid},
		{name: "too early", id: 1, note: "n", code: job.CodeTooEarly, spoil: func(_ *testing.T, b *bench) { b.now = b.now.Add(-time.Second) }},
		{
			name: "no dataset to read", id: 1, note: "n", code: job.CodeDatasetUnreadable, did: []string{"read file:///data/t"},
			spoil: func(_ *testing.T, b *bench) { b.open = &lance.Error{Code: lance.Unreadable, Reason: "a disk"} },
		},
		{
			name: "an unknown format", id: 1, note: "n", code: job.CodeDatasetUnreadable, did: []string{"read file:///data/t"},
			spoil: func(_ *testing.T, b *bench) { b.open = &lance.Error{Code: lance.Unsupported, Reason: "new"} },
		},
		{
			name: "a damaged dataset", id: 1, note: "n", code: job.CodeDatasetDamaged, did: []string{"read file:///data/t"},
			spoil: func(_ *testing.T, b *bench) { b.open = &lance.Error{Code: lance.ManifestDamaged, Reason: "short"} },
		},
		{
			name: "a fault without a name", id: 1, note: "n", code: job.CodeDatasetUnreadable, did: []string{"read file:///data/t"},
			spoil: func(_ *testing.T, b *bench) { b.open = errors.New("what is this") },
		},
		{
			name: "the refresher fails", id: 1, note: "n", code: job.CodeRefreshFailed, did: []string{"read file:///data/t", "refresh c for job 1"},
			spoil: func(_ *testing.T, b *bench) { b.refresh = errors.New("HTTP 503") },
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			b.now = b.now.Add(wait)
			// All that comes later would be refused too.
			if c.code != job.CodeRefreshFailed && c.did == nil {
				b.open = errors.New("not asked for")
			}
			if c.spoil != nil {
				c.spoil(t, b)
			}
			b.did = nil
			_, err := b.ForceRelease(t.Context(), "ada", c.id, c.expected, c.note)
			refusal := wantCode(t, err, c.code)
			b.wantDid(t, c.did...)
			if rec := b.state.Job(1); rec.ForceRelease != nil || !rec.HoldsFence() || !rec.HoldsSlot() {
				t.Errorf("something was released: %+v", rec)
			}
			aboutItsState := slices.Contains([]job.Code{job.CodeWrongState, job.CodeRevisionMismatch, job.CodeTooEarly}, c.code)
			if aboutItsState && (refusal.Present == nil || refusal.Present.ID != c.id) {
				t.Errorf("the refusal does not show the job as it is: %+v", refusal)
			}
		})
	}
}

// A released job is a success, before any other question.
func TestReleasedAlready(t *testing.T) {
	b := newBench(t)
	b.now = b.now.Add(wait)
	first, err := b.ask(1, "it burned")
	if err != nil {
		t.Fatal(err)
	}
	b.did, b.open, b.refresh = nil, errors.New("gone"), errors.New("gone")
	stale := job.Revision(0)
	again, err := b.ForceRelease(t.Context(), "bob", 1, &stale, "")
	if err != nil || again.ForceRelease.Actor != "ada" || again.Revision != first.Revision {
		t.Errorf("repeated: %+v, %v", again, err)
	}
	b.wantDid(t)
}

// That there is verifiably no dataset is an answer.
func TestVerifiedAbsence(t *testing.T) {
	b := newBench(t)
	b.now = b.now.Add(wait)
	b.open = fmt.Errorf("wrapped: %w", &lance.Error{Code: lance.DatasetMissing, Reason: "there is no such folder"})
	if _, err := b.ask(1, "dropped"); err != nil {
		t.Fatal(err)
	}
	b.wantDid(t, "read file:///data/t", "refresh c for job 1", "FORCE_RELEASE")
}

// What the master cannot read it does not read, and refreshes all the same.
func TestDatasetElsewhere(t *testing.T) {
	b := newBench(t)
	r := b.unknown(t, "s3://bucket/t", "idx")
	b.now = b.now.Add(wait)
	if _, err := b.ask(r.ID, "gone"); err != nil {
		t.Fatal(err)
	}
	b.wantDid(t, "refresh c for job 2", "FORCE_RELEASE")
}

// Without its catalog there is nobody to ask and nothing to tell.
func TestCatalogGone(t *testing.T) {
	b := newBench(t)
	b.now = b.now.Add(wait)
	b.state.Write(job.Change{Catalog: &job.CatalogChange{Name: "c"}}) // as a recovery may leave it
	if _, err := b.ask(1, "gone"); err != nil {
		t.Fatal(err)
	}
	b.wantDid(t, "FORCE_RELEASE")
}

// The release is at the revision that was read first: whoever changes the job
// meanwhile wins.
func TestOvertaken(t *testing.T) {
	b := newBench(t)
	b.now = b.now.Add(wait)
	rec := b.state.Job(1)
	b.during = func() {
		b.must(t, job.RecordLateResult{Header: b.head(), Identity: identity(rec), Code: job.CodeNativeOK, Proof: job.ProofChildReaped})
	}
	_, err := b.ask(1, "gone")
	refusal := wantCode(t, err, job.CodeRevisionMismatch)
	if p := refusal.Present; p == nil || len(p.LateResults) != 1 || !p.HoldsFence() {
		t.Errorf("the loser is shown %+v", p)
	}
	b.during = nil
	if _, err := b.ask(1, "gone"); err != nil {
		t.Errorf("asked again: %v", err)
	}
}

// What comes before the journal leaves it a part of the request's time.
func TestBoundedByTheRequest(t *testing.T) {
	b := newBench(t)
	b.now = b.now.Add(wait)
	b.refresh = context.DeadlineExceeded
	ctx, cancel := context.WithTimeout(t.Context(), minute)
	defer cancel()
	_, err := b.ForceRelease(ctx, "ada", 1, nil, "n")
	_ = wantCode(t, err, job.CodeRefreshFailed)
	whole, _ := ctx.Deadline()
	if given, ok := b.ctx.Deadline(); !ok || !given.Before(whole) {
		t.Errorf("the refresher has until %v, the request until %v", given, whole)
	}
}

// A catalog may allow its refresher more time than the request has. The error says how
// much that was.
func TestRefresherSlowerThanTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.now = b.now.Add(wait)
		await.Pass(time.Until(b.now)) // virtual: the bubble's clock begins long before
		b.during = func() { <-b.ctx.Done() }
		b.refresh = context.DeadlineExceeded
		ctx, cancel := context.WithDeadline(t.Context(), b.now.Add(minute))
		defer cancel()
		_, err := b.ForceRelease(ctx, "ada", 1, nil, "n")
		refusal := wantCode(t, err, job.CodeRefreshFailed)
		if !strings.Contains(refusal.Message, "not done within the 55s") || !strings.Contains(refusal.Next, "done in that time") {
			t.Errorf("%s; next: %s", refusal.Message, refusal.Next)
		}
		b.wantDid(t, "read file:///data/t", "refresh c for job 1")
	})
}
