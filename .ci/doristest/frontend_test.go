package doris

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"sync"
	"testing"

	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/sqltypes"
	"github.com/dolthub/vitess/go/vt/proto/query"
	"github.com/dolthub/vitess/go/vt/sqlparser"
)

// frontend is a Doris frontend as far as its MySQL port goes.
type frontend struct {
	t        *testing.T
	listener *mysql.Listener
	users    map[string]string // their passwords
	accepted chan struct{}     // closed when no more connections are accepted

	mu         sync.Mutex
	answer     error // to every statement
	hang       bool  // instead of an answer
	plugin     mysql.AuthMethod
	statements []string
	logins     []string
	methods    []string // by which each login was asked for
	open       int
	changed    chan struct{} // closed when any of the above changed
	stopped    chan struct{}
}

// newFrontend starts a frontend that ends with the test. With a TLS configuration
// it offers TLS.
func newFrontend(t *testing.T, users map[string]string, config *tls.Config) *frontend {
	t.Helper()
	f := &frontend{
		t: t, users: users, accepted: make(chan struct{}), changed: make(chan struct{}), stopped: make(chan struct{}),
	}
	f.plugin = mysql.NewMysqlNativeAuthMethod(f, f)
	var err error
	if f.listener, err = mysql.NewListener("tcp", "127.0.0.1:0", f, f, 0, 0); err != nil {
		t.Fatal(err)
	}
	f.listener.TLSConfig = config
	// What the refresher does is tested, not what the listener would forbid.
	f.listener.AllowClearTextWithoutTLS.Set(true)
	go func() {
		defer close(f.accepted)
		f.listener.Accept()
	}()
	t.Cleanup(f.stop)
	return f
}

func (f *frontend) stop() {
	close(f.stopped)
	f.listener.Close()
	<-f.accepted
	f.wait("all connections to end", func() bool { return f.open == 0 })
}

func (f *frontend) address() string { return f.listener.Addr().String() }

// wait returns when the condition holds; the test's own time limit bounds it.
func (f *frontend) wait(what string, holds func() bool) {
	f.t.Helper()
	deadline, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		f.mu.Lock()
		held, changed := holds(), f.changed
		f.mu.Unlock()
		if held {
			return
		}
		select {
		case <-changed:
		case <-deadline.Done():
			f.t.Errorf("waited in vain for %s", what)
			return
		}
	}
}

// note changes the frontend's state and tells those who wait.
func (f *frontend) note(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
	close(f.changed)
	f.changed = make(chan struct{})
}

func (f *frontend) got() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.statements...)
}

// The login.

func (f *frontend) AuthMethods() []mysql.AuthMethod { return []mysql.AuthMethod{f.plugin} }

func (f *frontend) DefaultAuthMethodDescription() mysql.AuthMethodDescription {
	return mysql.MysqlNativePassword
}

func (f *frontend) HandleUser(user string, _ net.Addr) bool {
	f.note(func() { f.logins = append(f.logins, user) })
	return true
}

type nobody struct{}

func (nobody) Get() *query.VTGateCallerID { return &query.VTGateCallerID{} }

func (f *frontend) UserEntryWithHash(_ []*x509.Certificate, salt []byte, user string, response []byte, _ net.Addr) (mysql.Getter, error) {
	f.note(func() { f.methods = append(f.methods, "scramble") })
	password, known := f.users[user]
	if !known || !bytes.Equal(response, mysql.ScrambleMysqlNativePassword(salt, []byte(password))) {
		return nil, denied(user)
	}
	return nobody{}, nil
}

// UserEntryWithPassword is asked with the password itself, which it echoes as a
// careless server might.
func (f *frontend) UserEntryWithPassword(_ []*x509.Certificate, user, password string, _ net.Addr) (mysql.Getter, error) {
	f.note(func() { f.methods = append(f.methods, "password") })
	if want, known := f.users[user]; !known || want != password {
		return nil, mysql.NewSQLError(mysql.ERAccessDeniedError, mysql.SSAccessDeniedError, "Access denied with password %q", password)
	}
	return nobody{}, nil
}

func denied(user string) error {
	return mysql.NewSQLError(mysql.ERAccessDeniedError, mysql.SSAccessDeniedError, "Access denied for user '%s'", user)
}

// The conversation.

func (f *frontend) NewConnection(*mysql.Conn) { f.note(func() { f.open++ }) }

func (f *frontend) ConnectionClosed(*mysql.Conn) { f.note(func() { f.open-- }) }

func (f *frontend) ConnectionAborted(*mysql.Conn, string) error { return nil }

func (f *frontend) ComQuery(_ context.Context, _ *mysql.Conn, statement string, callback mysql.ResultSpoolFn) error {
	var answer error
	var hang bool
	f.note(func() {
		f.statements = append(f.statements, statement)
		answer, hang = f.answer, f.hang
	})
	if hang {
		<-f.stopped
		return errors.New("stopped")
	}
	if answer != nil {
		return answer
	}
	return callback(&sqltypes.Result{}, false)
}

// unexpected is what the refresher must never do.
func (f *frontend) unexpected(what string) error {
	f.t.Errorf("the refresher used %s", what)
	return errors.New(what)
}

func (f *frontend) ComInitDB(*mysql.Conn, string) error { return f.unexpected("a default database") }

func (f *frontend) ComMultiQuery(context.Context, *mysql.Conn, string, mysql.ResultSpoolFn) (string, error) {
	return "", f.unexpected("several statements at once")
}

func (f *frontend) ComPrepare(context.Context, *mysql.Conn, string, *mysql.PrepareData) ([]*query.Field, error) {
	return nil, f.unexpected("a prepared statement")
}

func (f *frontend) ComStmtExecute(context.Context, *mysql.Conn, *mysql.PrepareData, func(*sqltypes.Result) error) error {
	return f.unexpected("a prepared statement")
}

func (f *frontend) ComResetConnection(*mysql.Conn) error { return f.unexpected("a connection again") }

func (f *frontend) WarningCount(*mysql.Conn) uint16 { return 0 }

func (f *frontend) ParserOptionsForConnection(*mysql.Conn) (sqlparser.ParserOptions, error) {
	return sqlparser.ParserOptions{}, nil
}
