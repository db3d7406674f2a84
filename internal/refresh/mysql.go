package refresh

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"sync"

	"github.com/go-sql-driver/mysql"
)

// maxConversation bounds what one frontend may send in one attempt, in bytes. The
// driver itself would keep a packet of any length.
const maxConversation = 1 << 20

var (
	errBrokeDriver = errors.New("it sent a malformed packet that broke the driver")
	errTooMuch     = &localError{fmt.Sprintf("it sent more than %d bytes", maxConversation)}
	errNotOK       = &localError{"it answered with rows and not with OK"}
	errWantsClear  = &localError{"its login wants the password itself, which is sent over TLS only; set tls for this refresher"}
)

// driverErrors are the errors of the driver that quote nothing.
var driverErrors = []error{
	driver.ErrBadConn, mysql.ErrInvalidConn, mysql.ErrMalformPkt, mysql.ErrNoTLS, mysql.ErrNativePassword,
	mysql.ErrOldPassword, mysql.ErrUnknownPlugin, mysql.ErrOldProtocol, mysql.ErrPktSync, mysql.ErrPktSyncMul,
}

// refusedError is a frontend's own error: a login refused, no master, no such
// table.
type refusedError struct{ code, message string }

func (e *refusedError) Error() string { return e.code + " " + e.message }

// mysqlSession is a session of the MySQL protocol. It is used by one goroutine.
type mysqlSession struct {
	conn   driver.Conn
	raw    net.Conn
	causes *causes
}

// connectMySQL logs in to one frontend. Nothing is sent but the login: no SET, no
// question for a variable. The connection is one of its own and not of a pool,
// which would repeat a statement on another connection as it sees fit.
func connectMySQL(ctx context.Context, to login) (s session, err error) {
	var conn *boundedConn
	causes := &causes{}
	config := mysql.NewConfig()
	config.User, config.Passwd = to.user, to.password
	config.Net, config.Addr = "tcp", to.address
	config.TLS = to.tls
	// No timeouts of the driver's own: the connection is closed when the context ends,
	// which ends its reads and writes, whatever state it is in.
	config.Logger = causes
	config.ConnectionAttributes = "program_name:lancemaster"
	config.AllowFallbackToPlaintext = false
	config.AllowOldPasswords = false
	// Some logins, such as LDAP's, want the password itself. Only a server whose
	// certificate was checked gets it.
	config.AllowCleartextPasswords = to.tls != nil
	if to.tls == nil {
		if config.ServerPubKey, err = nobodysKey(); err != nil {
			return nil, err
		}
	}
	config.InterpolateParams = false
	config.MultiStatements = false
	config.CheckConnLiveness = false
	config.DialFunc = func(dctx context.Context, network, address string) (net.Conn, error) {
		raw, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		conn = &boundedConn{Conn: raw, left: maxConversation}
		return conn, dctx.Err()
	}
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, fmt.Errorf("the frontend's address or login cannot be used: %w", err)
	}
	defer func() {
		// The driver trusts lengths that a server writes; a short packet ends it.
		if recover() != nil {
			s, err = nil, errBrokeDriver
		}
		if err != nil && conn != nil {
			_ = conn.Close()
		}
	}()
	opened, err := connector.Connect(ctx)
	if err != nil {
		return nil, causes.explain(ctx, err)
	}
	return &mysqlSession{conn: opened, raw: conn, causes: causes}, nil
}

// Exec sends the statement as it stands, in one packet.
func (s *mysqlSession) Exec(ctx context.Context, statement string) (err error) {
	defer func() {
		if recover() != nil {
			err = errBrokeDriver
		}
	}()
	// As a query: to an exec the driver passes over rows as if they were an OK.
	queryer, ok := s.conn.(driver.QueryerContext)
	if !ok {
		return errors.New("the driver cannot send a statement")
	}
	rows, err := queryer.QueryContext(ctx, statement, nil)
	if err != nil {
		return s.causes.explain(ctx, err)
	}
	columns := len(rows.Columns())
	if err := rows.Close(); err != nil {
		return s.causes.explain(ctx, err)
	}
	if columns > 0 {
		return errNotOK
	}
	return nil
}

// Close says goodbye and closes the connection.
func (s *mysqlSession) Close() error {
	err := s.conn.Close()
	_ = s.raw.Close()
	return err
}

// nobodysKey names a public key whose private one was thrown away.
//
// Without TLS a server may ask for the password encrypted with a key that it sends
// along, and the driver would do so: whoever stands between could have the password
// by sending his own key. With a key of ours in its place nobody can read it. Such a
// login fails; it takes TLS.
var nobodysKey = sync.OnceValues(func() (name string, err error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return "", fmt.Errorf("no key could be made to log in without TLS: %w", err)
	}
	const registered = "lancemaster: nobody's key"
	mysql.RegisterServerPubKey(registered, &key.PublicKey)
	return registered, nil
})

// boundedConn fails when the other side sends more than is left.
type boundedConn struct {
	net.Conn
	left int
}

func (c *boundedConn) Read(p []byte) (int, error) {
	if c.left <= 0 {
		return 0, errTooMuch
	}
	n, err := c.Conn.Read(p[:min(len(p), c.left)])
	c.left -= n
	return n, err
}

// causes takes the driver's log. The driver returns "invalid connection" and logs
// why; nothing goes to standard error.
type causes struct {
	mu    sync.Mutex
	first error
}

// Print keeps the first error that is logged.
func (c *causes) Print(v ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, value := range v {
		if err, ok := value.(error); ok && c.first == nil {
			c.first = err
		}
	}
}

// explain returns an error of the driver with its cause, or as a frontend's own.
func (c *causes) explain(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ended := ctx.Err(); ended != nil {
		return ended
	}
	var answer *mysql.MySQLError
	if errors.As(err, &answer) {
		return &refusedError{code: fmt.Sprintf("error %d", answer.Number), message: answer.Message}
	}
	if errors.Is(err, mysql.ErrCleartextPassword) {
		return errWantsClear
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	broke := errors.Is(err, mysql.ErrInvalidConn) || errors.Is(err, driver.ErrBadConn)
	if broke && c.first != nil {
		return fmt.Errorf("the connection broke: %w", c.first)
	}
	for _, plain := range driverErrors {
		if errors.Is(err, plain) {
			return &localError{err.Error()}
		}
	}
	return err
}
