package refresh

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lancemaster/lancemaster/internal/await"
)

const passwordCanary = "canary-password-91c3"

// frontends is a cluster played by a script: what each address answers to a login
// and to a statement.
type frontends struct {
	mu         sync.Mutex
	script     map[string]scriptedFrontend
	logins     []login
	statements []string
	closed     int
}

type scriptedFrontend struct {
	connect, exec error
	hangs         bool // after the login
}

func (f *frontends) connect(ctx context.Context, to login) (session, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.logins = append(f.logins, to)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	scripted := f.script[to.address]
	if scripted.connect != nil {
		return nil, scripted.connect
	}
	return &scriptedSession{f, scripted}, nil
}

func (f *frontends) asked() []string {
	var addresses []string
	for _, to := range f.logins {
		addresses = append(addresses, to.address)
	}
	return addresses
}

type scriptedSession struct {
	of *frontends
	scriptedFrontend
}

func (s *scriptedSession) Exec(ctx context.Context, statement string) error {
	s.of.mu.Lock()
	s.of.statements = append(s.of.statements, statement)
	s.of.mu.Unlock()
	if s.hangs {
		<-ctx.Done()
		return ctx.Err()
	}
	return s.exec
}

func (s *scriptedSession) Close() error {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	s.of.closed++
	return nil
}

// doris returns a refresher of the scripted frontends.
func (f *frontends) doris() *Doris {
	d := NewDoris(secrets{"env:PASSWORD": passwordCanary, "env:SHORT": "root", "env:NUL": "pass\x00word"}, nil)
	d.connect = f.connect
	return d
}

func dorisSpec(frontends ...string) Spec {
	return Spec{Kind: KindDoris, Frontends: frontends, User: "ro'ot@%", PasswordRef: "env:PASSWORD"}
}

var (
	down      = scriptedFrontend{connect: &localError{"dial tcp: connection refused"}}
	denied    = scriptedFrontend{connect: &refusedError{"error 1045", "Access denied for user 'root' with " + passwordCanary}}
	notMaster = scriptedFrontend{exec: &refusedError{"error 5023", "not\nmaster"}}
	accepting = scriptedFrontend{}
	hanging   = scriptedFrontend{hangs: true}
)

func TestDorisFailover(t *testing.T) {
	for name, tt := range map[string]struct {
		script   map[string]scriptedFrontend
		asked    []string
		evidence string
		fails    string
	}{
		"the first": {
			map[string]scriptedFrontend{"fe1:9030": accepting, "fe2:9030": accepting, "fe3:9030": accepting},
			[]string{"fe1:9030"}, "frontend fe1:9030 answered OK to REFRESH TABLE", "",
		},
		"the last": {
			map[string]scriptedFrontend{"fe1:9030": down, "fe2:9030": notMaster, "fe3:9030": accepting},
			[]string{"fe1:9030", "fe2:9030", "fe3:9030"},
			"frontend fe3:9030 answered OK to REFRESH TABLE, after fe1:9030: dial tcp: connection refused;" +
				" fe2:9030: error 5023 not master", "",
		},
		"after a refused login": {
			map[string]scriptedFrontend{"fe1:9030": denied, "fe2:9030": accepting},
			[]string{"fe1:9030", "fe2:9030"},
			"frontend fe2:9030 answered OK to REFRESH TABLE, after fe1:9030: error 1045 Access denied for user 'root' with ***", "",
		},
		"none": {
			map[string]scriptedFrontend{"fe1:9030": down, "fe2:9030": denied, "fe3:9030": notMaster},
			[]string{"fe1:9030", "fe2:9030", "fe3:9030"}, "",
			"no frontend answered OK to REFRESH TABLE: fe1:9030: dial tcp: connection refused; fe2:9030: error 1045 Access" +
				" denied for user 'root' with ***; fe3:9030: error 5023 not master",
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := &frontends{script: tt.script}
			evidence, err := f.doris().Refresh(t.Context(), dorisSpec("fe1:9030", "fe2:9030", "fe3:9030"), change)
			if evidence != tt.evidence {
				t.Errorf("evidence %q, want %q", evidence, tt.evidence)
			}
			if tt.fails != "" && (err == nil || err.Error() != tt.fails) || tt.fails == "" && err != nil {
				t.Errorf("error %v, want %q", err, tt.fails)
			}
			if asked := f.asked(); !slices.Equal(asked, tt.asked) {
				t.Errorf("asked %q, want %q", asked, tt.asked)
			}
			for _, statement := range f.statements {
				if statement != "REFRESH TABLE `lance`.`sales & co`.`t``1\"<ü>`" {
					t.Errorf("sent %q", statement)
				}
			}
			if len(f.statements) != f.closed {
				t.Errorf("%d sessions were closed of %d", f.closed, len(f.statements))
			}
			for _, to := range f.logins {
				if to.user != "ro'ot@%" || to.password != passwordCanary || to.tls != nil {
					t.Errorf("%s was given another login: user %q", to.address, to.user)
				}
			}
		})
	}
}

// Frontends that hang share the time, so that the last one still gets its turn.
func TestDorisSharesTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &frontends{script: map[string]scriptedFrontend{"a:1": hanging, "b:1": hanging, "c:1": accepting}}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		start := time.Now()
		evidence, err := f.doris().Refresh(ctx, dorisSpec("a:1", "b:1", "c:1"), change)
		if err != nil || !strings.Contains(evidence, "frontend c:1 answered OK") || !strings.Contains(evidence, "a:1: no answer within its share") {
			t.Errorf("got %q, %v", evidence, err)
		}
		if took := time.Since(start); took != 20*time.Second {
			t.Errorf("it took %v, want two shares of 10s", took)
		}

		f.script["c:1"] = hanging
		start = time.Now()
		// Without a deadline the default bounds it.
		_, err = f.doris().Refresh(context.Background(), dorisSpec("a:1", "b:1", "c:1"), change)
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != DefaultTimeout {
			t.Errorf("error %v after %v", err, time.Since(start))
		}
	})
}

// When the term ends no further frontend is asked.
func TestDorisStopsWhenGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &frontends{script: map[string]scriptedFrontend{"a:1": hanging, "b:1": accepting}}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		_, err := f.doris().Refresh(ctx, dorisSpec("a:1", "b:1"), change)
		if !errors.Is(err, context.Canceled) || !slices.Equal(f.asked(), []string{"a:1"}) {
			t.Errorf("error %v, asked %q", err, f.asked())
		}
	})
}

// A frontend that broke the driver is left alone for an hour; the others are not.
func TestDorisRestsBrokenFrontends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &frontends{script: map[string]scriptedFrontend{"a:1": {connect: errBrokeDriver}, "b:1": accepting}}
		d := f.doris()
		attempts := []struct {
			later time.Duration
			asked []string
			says  string
		}{
			{0, []string{"a:1", "b:1"}, "a:1: it sent a malformed packet"},
			{restFor - time.Second, []string{"b:1"}, "a:1: not asked before"},
			{time.Second, []string{"a:1", "b:1"}, "a:1: it sent a malformed packet"},
		}
		for i, tt := range attempts {
			await.Pass(tt.later)
			f.logins = nil
			evidence, err := d.Refresh(t.Context(), dorisSpec("a:1", "b:1"), change)
			if err != nil || !strings.Contains(evidence, tt.says) || !slices.Equal(f.asked(), tt.asked) {
				t.Errorf("attempt %d: %q, %v, asked %q", i, evidence, err, f.asked())
			}
		}
	})
}

// The error of sixteen frontends with long answers stays within what a job stores.
func TestDorisBoundsItsReport(t *testing.T) {
	f := &frontends{script: map[string]scriptedFrontend{}}
	var names []string
	for i := range 16 {
		name := fmt.Sprintf("fe%d.example:9030", i)
		names = append(names, name)
		f.script[name] = scriptedFrontend{exec: &refusedError{"error 1105", strings.Repeat("ü", 5000)}}
	}
	_, err := f.doris().Refresh(t.Context(), dorisSpec(names...), change)
	wantError(t, err, "fe0.example:9030: error 1105 ü", "fe15.example:9030: error 1105 ü")
	if len(err.Error()) > 1024 {
		t.Errorf("the error has %d bytes", len(err.Error()))
	}
}

func TestDorisRefusesWhatItCannotSend(t *testing.T) {
	with := func(change func(*Spec)) Spec {
		spec := dorisSpec("a:1")
		change(&spec)
		return spec
	}
	for name, tt := range map[string]struct {
		spec Spec
		want string
	}{
		"no frontend":      {dorisSpec(), "names no frontend"},
		"missing password": {with(func(s *Spec) { s.PasswordRef = "env:NONE" }), "the refresher's password is not to be had: the environment variable"},
		"NUL in password":  {with(func(s *Spec) { s.PasswordRef = "env:NUL" }), "NUL"},
		"NUL in user":      {with(func(s *Spec) { s.User = "a\x00b" }), "NUL"},
		"missing CA":       {with(func(s *Spec) { s.TLS, s.CARef = true, "file:/none" }), "the CA bundle: "},
		"CA of env":        {with(func(s *Spec) { s.TLS, s.CARef = true, "env:CA" }), "not file:PATH"},
	} {
		t.Run(name, func(t *testing.T) {
			f := &frontends{}
			_, err := f.doris().Refresh(t.Context(), tt.spec, change)
			wantError(t, err, tt.want)
			if len(f.logins) > 0 {
				t.Error("a frontend was asked")
			}
		})
	}
	f := &frontends{}
	_, err := f.doris().Refresh(t.Context(), dorisSpec("a:1"), Attempt{Catalog: "c", Database: "", Table: "t"})
	if !errors.Is(err, errEmptyName) || len(f.logins) > 0 {
		t.Errorf("an empty database: %v", err)
	}
}

func TestDorisShortPassword(t *testing.T) {
	f := &frontends{script: map[string]scriptedFrontend{"a:1": {exec: &refusedError{"error 1049", "Unknown database 'root'"}}, "b:1": down, "c:1": {connect: errors.New("no pem data found, data: root")}}}
	spec := dorisSpec("a:1", "b:1", "c:1")
	spec.PasswordRef = "env:SHORT"
	_, err := f.doris().Refresh(t.Context(), spec, change)
	wantError(t, err, "a:1: error 1049 "+withheld, "b:1: dial tcp: connection refused", "c:1: "+withheld)
	if strings.Contains(err.Error(), "root") {
		t.Errorf("the password is seen in %q", err)
	}
}

func TestDorisTLSConfig(t *testing.T) {
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	bundle := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	f := &frontends{script: map[string]scriptedFrontend{"a:1": accepting}}
	d := NewDoris(secrets{"file:/ca": bundle}, nil)
	d.connect = f.connect
	if _, err := d.Refresh(t.Context(), Spec{Frontends: []string{"a:1"}, User: "u", TLS: true, CARef: "file:/ca"}, change); err != nil {
		t.Fatal(err)
	}
	to := f.logins[0]
	if to.password != "" || to.tls == nil || to.tls.RootCAs == nil || to.tls.InsecureSkipVerify || to.tls.MinVersion < 0x0303 {
		t.Errorf("without a password and with TLS the login has TLS %v", to.tls)
	}
}
