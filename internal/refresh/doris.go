package refresh

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
)

// KindDoris is the kind of a catalog whose readers are a cluster of Doris.
const KindDoris = "doris"

const (
	maxReport = 900       // bytes about the frontends that failed
	restFor   = time.Hour // how long a frontend is left alone that broke the driver
)

// Doris sends REFRESH TABLE to the frontends of the catalog, in their order, until
// one takes it.
//
// A frontend that is down, hangs, refuses the login, is not the master and cannot
// reach it, or answers anything but OK is passed over for the next: the statement
// may be repeated, and to tell these apart one would have to read messages. Each
// frontend gets an equal share of the time that is left, so that one which hangs
// does not use up that of the others.
type Doris struct {
	resolver Resolver
	connect  connectFunc
	// own is this master's certificate, for frontends that ask for one.
	own Certificate

	mu      sync.Mutex
	resting map[string]time.Time // by address, until when
}

// NewDoris returns a refresher that reads passwords and CA bundles with resolver,
// and shows frontends that ask for one a certificate, which may be nil.
func NewDoris(resolver Resolver, own Certificate) *Doris {
	return &Doris{resolver: resolver, own: own, connect: connectMySQL, resting: make(map[string]time.Time)}
}

// login is what one frontend is given.
type login struct {
	address  string
	user     string
	password string
	tls      *tls.Config // nil for none
}

// session is a connection that is logged in.
type session interface {
	// Exec sends the statement as it stands and returns nil when the answer is OK.
	Exec(ctx context.Context, statement string) error
	Close() error
}

type connectFunc func(ctx context.Context, to login) (session, error)

// Refresh makes one attempt. Its evidence is the OK of one frontend, which it names.
func (d *Doris) Refresh(ctx context.Context, spec Spec, attempt Attempt) (string, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	if len(spec.Frontends) == 0 {
		return "", errors.New("the catalog's refresher names no frontend; add one as host:port")
	}
	statement, err := refreshStatement(attempt)
	if err != nil {
		return "", err
	}
	to, err := d.login(ctx, spec)
	if err != nil {
		return "", err
	}
	scrub := newScrubber(to.password)
	var failed report
	failed.each = maxReport / len(spec.Frontends)
	for i, address := range spec.Frontends {
		if ctx.Err() != nil {
			break
		}
		to.address = address
		err := d.ask(ctx, len(spec.Frontends)-i, to, statement)
		if err == nil {
			return evidence(address, failed), nil
		}
		failed.add(address, reason(ctx, scrub, err))
	}
	return "", noneAnswered(ctx, failed)
}

// noneAnswered is the error of all attempts. That time ran out can be told with
// errors.Is.
func noneAnswered(ctx context.Context, failed report) error {
	text := "no frontend answered OK to REFRESH TABLE"
	if len(failed.lines) > 0 {
		text += ": " + failed.String()
	}
	if ended := ctx.Err(); ended != nil {
		return fmt.Errorf("%s: %w", text, ended)
	}
	return errors.New(text)
}

func evidence(address string, failed report) string {
	text := fmt.Sprintf("frontend %s answered OK to REFRESH TABLE", address)
	if len(failed.lines) > 0 {
		text += ", after " + failed.String()
	}
	return text
}

func (d *Doris) login(ctx context.Context, spec Spec) (login, error) {
	to := login{user: spec.User}
	if strings.IndexByte(to.user, 0) >= 0 {
		return login{}, errors.New("the refresher's user holds a NUL character; correct the catalog")
	}
	var err error
	if to.password, err = resolve(ctx, d.resolver, spec.PasswordRef); err != nil {
		return login{}, fmt.Errorf("the refresher's password is not to be had: %w", err)
	}
	if strings.IndexByte(to.password, 0) >= 0 {
		return login{}, errors.New("the refresher's password holds a NUL character, which no login can carry")
	}
	if spec.TLS {
		if to.tls, err = clientTLS(ctx, d.resolver, spec.CARef, d.own); err != nil {
			return login{}, err
		}
	}
	return to, nil
}

// ask sends the statement to one frontend, the first of as many as still have to
// share the time.
func (d *Doris) ask(ctx context.Context, sharers int, to login, statement string) error {
	if until := d.restsUntil(to.address); !until.IsZero() {
		return fmt.Errorf("not asked before %s: it sent a packet that broke the driver", until.UTC().Format(time.RFC3339))
	}
	ctx, cancel := shareOf(ctx, sharers)
	defer cancel()
	conn, err := d.connect(ctx, to)
	if err != nil {
		if errors.Is(err, errBrokeDriver) {
			d.rest(to.address)
		}
		return err
	}
	defer conn.Close()
	return conn.Exec(ctx, statement)
}

// shareOf returns an equal share of the time that is left. The last one has what
// the others left over, which the context bounds already.
func shareOf(ctx context.Context, sharers int) (context.Context, context.CancelFunc) {
	if sharers <= 1 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, timeLeft(ctx)/time.Duration(sharers))
}

// rest leaves a frontend alone for a while. A driver that panics while it logs in
// leaves a goroutine behind, and this bounds how many a frontend can cost.
func (d *Doris) rest(address string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.resting[address] = time.Now().Add(restFor)
}

// restsUntil returns until when the frontend is left alone, or zero.
func (d *Doris) restsUntil(address string) time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	until, ok := d.resting[address]
	if ok && !time.Now().Before(until) {
		delete(d.resting, address)
		return time.Time{}
	}
	return until
}

// reason says why a frontend was passed over.
func reason(ctx context.Context, scrub scrubber, err error) string {
	var answer *refusedError
	switch {
	case ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded):
		return "no answer within its share of the time"
	case errors.As(err, &answer):
		return strings.TrimSpace(answer.code + " " + scrub.theirs(answer.message, maxReason))
	case errors.Is(err, errBrokeDriver):
		return err.Error()
	default:
		return scrub.failure(err, maxReason)
	}
}

// report lists the frontends that failed, each cut to its share of the text.
type report struct {
	each  int
	lines []string
}

func (r *report) add(address, reason string) {
	r.lines = append(r.lines, oneLine(address+": "+reason, r.each))
}

func (r *report) String() string { return strings.Join(r.lines, "; ") }
