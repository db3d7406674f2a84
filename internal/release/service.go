package release

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/lancemaster/lancemaster/internal/job"
	"github.com/lancemaster/lancemaster/internal/lance"
)

// State reads what has been applied on this node. Job also finds jobs that are not
// open; it returns nil for one that does not exist.
type State interface {
	Read(show func(*job.Live))
	Job(id job.ID) (*job.Record, error)
}

// Journal proposes commands. Its error is a *job.Refusal, wraps job.ErrNotAppended,
// or is ambiguous.
type Journal interface {
	Propose(ctx context.Context, c job.Command) (job.Answer, error)
}

// Opener reads the latest version of a dataset; see lance.Open.
type Opener func(ctx context.Context, locator string) (*lance.Dataset, error)

// Refresher makes one attempt at refreshing a job's table, within a bound of its own
// and the context's. Its error carries no secret.
type Refresher func(ctx context.Context, catalog *job.Catalog, rec *job.Record) error

// Config is what a Service needs; all but the logger.
type Config struct {
	State   State
	Journal Journal
	Open    Opener
	Refresh Refresher
	// Sending tells whether this process may still be writing the job's call. The
	// setting that bounds it may have been lowered since.
	Sending func(job.ID) bool
	Now     func() time.Time // the wall clock, with the monotonic one
	// WallOffset is how far the wall clock is to be taken for ahead of Now's; nil: not at all. Tests
	// step the clock with it.
	WallOffset func() time.Duration
	// ClockAgrees tells whether the wall clock agrees with a majority of the masters. While it does
	// not, what another master wrote of times is not believed.
	ClockAgrees func() bool
	Logger      *slog.Logger
}

const (
	// readTime bounds the reading of the manifest.
	readTime = 15 * time.Second
	// journalTime is what is kept of the request's time for the journal.
	journalTime = 5 * time.Second
)

// Service force releases jobs. It is safe for concurrent use.
type Service struct {
	cfg   Config
	times times
}

// New returns a Service.
func New(cfg Config) *Service {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Service{cfg: cfg, times: times{byJob: make(map[job.ID]moment)}}
}

// TermBegan is told that this process leads a new term and has applied all that was
// journaled before; several says that there are other masters, one of which may have
// led then.
func (s *Service) TermBegan(several bool) { s.times.began(s.cfg.Now(), several) }

// Applied is told of each command that this process has journaled. It does not
// block.
func (s *Service) Applied(c job.Change) {
	if len(c.Jobs) == 0 {
		return
	}
	s.times.applied(c.Jobs, s.cfg.Now())
	s.cfg.State.Read(func(live *job.Live) {
		s.times.prune(func(id job.ID) bool {
			rec := live.Job(id)
			return rec != nil && rec.HoldsFence()
		})
	})
}

// ForceRelease releases what an UNKNOWN job holds. The caller has made sure that
// what State shows is current. expected is the revision that the operator saw, nil
// for any. The error is like the journal's; any but an ambiguous one says that
// nothing was released.
func (s *Service) ForceRelease(ctx context.Context, actor string, id job.ID, expected *job.Revision, note string) (*job.Record, error) {
	rec, err := s.cfg.State.Job(id)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", job.ErrNotAppended, err)
	case rec == nil:
		return nil, &job.Refusal{
			Code: job.CodeNotFound, Message: fmt.Sprintf("there is no job %d", id),
			Next: "list the jobs with: lancemaster job list; one that ended long ago may have been removed",
		}
	case rec.ForceRelease != nil:
		return rec, nil
	}
	if err := s.check(rec, expected, note); err != nil {
		return nil, err
	}
	if err := s.verify(ctx, rec); err != nil {
		return nil, err
	}
	answer, err := s.cfg.Journal.Propose(ctx, job.ForceRelease{
		Header: job.Header{At: job.Millis(s.cfg.Now().UnixMilli()), Actor: actor},
		Job:    id, Expected: rec.Revision, Note: note, Warning: job.ForceReleaseWarning,
	})
	if err != nil {
		return nil, err
	}
	return answer.Job, nil
}

// check makes the checks that cost nothing.
func (s *Service) check(rec *job.Record, expected *job.Revision, note string) error {
	switch {
	case rec.State != job.StateUnknown:
		return &job.Refusal{
			Code: job.CodeWrongState, Present: rec,
			Message: fmt.Sprintf("job %d was not force released: it is %s", rec.ID, rec.State),
			Next:    "only an UNKNOWN job can be force released; others are resolved by their outcome",
		}
	case expected != nil && *expected != rec.Revision:
		return &job.Refusal{
			Code: job.CodeRevisionMismatch, Present: rec,
			Message: fmt.Sprintf("job %d was not force released: it is at revision %d, not %d", rec.ID, rec.Revision, *expected),
			Next:    "look at what it is now, and ask again if it still is what you want",
		}
	case strings.TrimSpace(note) == "":
		return invalidNote("is empty")
	case len(note) > job.MaxNote:
		return invalidNote(fmt.Sprintf("has %d bytes; at most %d are kept", len(note), job.MaxNote))
	}
	if wait := s.tooEarly(rec); wait > 0 {
		wait = wait.Truncate(time.Second) + time.Second
		return &job.Refusal{
			Code: job.CodeTooEarly, Present: rec,
			Message: fmt.Sprintf("job %d was not force released: the master that sent it may still have been writing; %s are left of the time that this can take",
				rec.ID, job.FormatDuration(wait)),
			Next: "ask again in " + job.FormatDuration(wait),
		}
	}
	return nil
}

func invalidNote(why string) error {
	return &job.Refusal{
		Code: job.CodeInvalid, Message: "the note " + why,
		Next: "give a note of 1 to 1024 bytes: why the job's worker is known to be gone",
	}
}

// Wait is how long after a job became RUNNING, or was quarantined, the master that
// had it may still write to a backend.
func Wait(s job.Settings) time.Duration { return job.MaxSendWindow + s.RPCTimeout }

func (s *Service) wallOffset() time.Duration {
	if s.cfg.WallOffset == nil {
		return 0
	}
	return s.cfg.WallOffset()
}

// tooEarly returns how long the job must still be left alone, at most what is to be
// waited in all.
func (s *Service) tooEarly(rec *job.Record) time.Duration {
	var wait time.Duration
	s.cfg.State.Read(func(live *job.Live) { wait = Wait(live.Settings()) })
	left := max(wait-s.times.since(rec, s.cfg.Now(), s.wallOffset(), s.cfg.ClockAgrees()), 0)
	if s.cfg.Sending(rec.ID) {
		left = max(left, time.Second)
	}
	return left
}

// ReleasableIn returns how long it is until the job can be force released at the
// earliest, as far as this master knows; for explanations.
func (s *Service) ReleasableIn(rec *job.Record) time.Duration { return s.tooEarly(rec) }

// verify reads the dataset and refreshes the catalog, where they can be.
func (s *Service) verify(ctx context.Context, rec *job.Record) error {
	var catalog *job.Catalog
	s.cfg.State.Read(func(live *job.Live) { catalog = live.Catalog(rec.Target.Catalog) })
	if catalog == nil {
		s.cfg.Logger.Warn("a job is force released without a look at its dataset: its catalog is gone",
			"job", rec.ID, "catalog", rec.Target.Catalog)
		return nil
	}
	ctx, cancel := withReserve(ctx)
	defer cancel()
	if job.LocatorScheme(rec.Target.Locator) == "file" {
		if err := s.read(ctx, rec); err != nil {
			return err
		}
	}
	began := s.cfg.Now()
	err := s.cfg.Refresh(ctx, catalog, rec)
	if err == nil {
		return nil
	}
	reason, next := job.SanitizeMessage(err.Error()), "see to it that the refresher works"
	if deadline, ok := ctx.Deadline(); ok && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		// The catalog may allow its refresher more than a request has.
		had := job.FormatDuration(max(deadline.Sub(began), 0).Round(time.Millisecond))
		reason = fmt.Sprintf("it was not done within the %s that a force release had for it, whatever the catalog allows", had)
		next = "see to it that the refresher is done in that time"
	}
	return &job.Refusal{
		Code:    job.CodeRefreshFailed,
		Message: fmt.Sprintf("job %d was not force released: the refresher of catalog %q failed: %s", rec.ID, catalog.Name, reason),
		Next:    next + ", or change the catalog's refresher, and ask again",
	}
}

// withReserve ends what comes before the journal a little before the request, so
// that the journal still has its time.
func withReserve(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, bounded := ctx.Deadline()
	if !bounded {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, deadline.Add(-journalTime))
}

// read reads the dataset's newest manifest. That there is none is an answer.
func (s *Service) read(ctx context.Context, rec *job.Record) error {
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	_, err := s.cfg.Open(ctx, rec.Target.Locator)
	code := lance.CodeOf(err)
	if err == nil || code == lance.DatasetMissing {
		return nil
	}
	refusal := &job.Refusal{
		Code:    job.CodeDatasetUnreadable,
		Message: fmt.Sprintf("job %d was not force released: its dataset cannot be read: %v", rec.ID, err),
		Next:    "see to it that the leader can read the dataset, or that it is verifiably gone, and ask again",
	}
	switch {
	case code == lance.ManifestDamaged:
		refusal.Code = job.CodeDatasetDamaged
		refusal.Next = "repair or restore the dataset, or move it away, and ask again"
	case errors.Is(err, ctx.Err()) && ctx.Err() != nil:
		refusal.Message = fmt.Sprintf("job %d was not force released: its dataset could not be read in time", rec.ID)
	}
	return refusal
}
