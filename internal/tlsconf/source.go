package tlsconf

import (
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Config says what a Source loads.
type Config struct {
	// Uses are what the files are for: one Source serves them all, so that they change together and a
	// fault is told once.
	Uses  []Use
	Files Files
	// Node is this master's node id. Where it is set, only a certificate of the role master that names
	// this node is loaded, whatever for, so that a certificate of another node is found out here and
	// not by peers.
	Node string
	// Interval is how often the files are looked at; default 30 s, negative: never but by Reload.
	Interval time.Duration
	Logger   *slog.Logger // default: discard
	Metrics  *Metrics     // default: none
}

const defaultInterval = 30 * time.Second

// closeGrace is how long Close waits for a read of the files that hangs.
const closeGrace = time.Second

// Source holds a certificate, its key and a bundle of CAs, and keeps them up to date. It is safe for
// concurrent use.
type Source struct {
	cfg     Config
	current atomic.Pointer[loaded]

	mu       sync.Mutex        // one load at a time; guards what follows
	inUse    [sha256.Size]byte // of the files that current was loaded from
	lastSaid string            // the newest failure that was told; empty when the files are in use
	nearing  nearness          // how near the certificate's end was when that was told
	keyOpen  bool              // whether others could read the key when it was last looked at

	stop chan struct{}
	once sync.Once
	done chan struct{}
}

// Open loads the files and begins to watch them. The caller closes the Source.
func Open(cfg Config) (*Source, error) {
	if cfg.Interval == 0 {
		cfg.Interval = defaultInterval
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Metrics == nil {
		m, err := NewMetrics(nil)
		if err != nil {
			return nil, err
		}
		cfg.Metrics = m
	}
	if len(cfg.Uses) == 0 {
		return nil, errors.New("a certificate that is for no use")
	}
	for _, use := range cfg.Uses {
		if !use.known() {
			return nil, fmt.Errorf("%q is no use of a certificate", use)
		}
	}
	if err := cfg.Files.check(); err != nil {
		return nil, fmt.Errorf("TLS of the %s connections: %w", cfg.uses(), err)
	}
	s := &Source{cfg: cfg, stop: make(chan struct{}), done: make(chan struct{})}
	c, err := cfg.Files.read()
	if err == nil {
		err = s.take(c)
	}
	if err != nil {
		cfg.Metrics.forget(cfg.Uses)
		return nil, fmt.Errorf("TLS of the %s connections: %w", cfg.uses(), err)
	}
	if cfg.Interval < 0 {
		close(s.done)
		return s, nil
	}
	go s.watch()
	return s, nil
}

// uses names what the files are for.
func (c Config) uses() string {
	names := make([]string, len(c.Uses))
	for i, use := range c.Uses {
		names[i] = string(use)
	}
	return strings.Join(names, ", ")
}

// Close ends the watch. Configurations made before keep working, with what was loaded last.
func (s *Source) Close() error {
	s.once.Do(func() { close(s.stop) })
	timer := time.NewTimer(closeGrace)
	defer timer.Stop()
	select {
	case <-s.done:
		return nil
	case <-timer.C:
		return fmt.Errorf("a read of the TLS files of the %s connections did not end within %s", s.cfg.uses(), closeGrace)
	}
}

func (s *Source) watch() {
	defer close(s.done)
	ticker := time.NewTicker(s.cfg.Interval)
	defer ticker.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-ticker.C:
			if news, err := s.look(); news {
				s.cfg.Logger.Error("cannot load changed TLS files", "uses", s.cfg.uses(), "error", err.Error())
			}
		}
	}
}

// Reload looks at the files now, and loads them when they are not those in use. After an error new
// connections are made with what was loaded before. The error is for the caller to tell: the watch does not
// repeat it.
func (s *Source) Reload() error {
	_, err := s.look()
	return err
}

// look is Reload; news reports that the fault was not there at the look before.
func (s *Source) look() (news bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, err := s.cfg.Files.read()
	if err == nil && s.current.Load().loses(c.ca) {
		c, err = s.settled(c)
	}
	if err == nil {
		if c.digest() == s.inUse {
			s.wellAgain()
			return false, nil
		}
		err = s.take(c)
	}
	if err == nil {
		return false, nil
	}
	err = fmt.Errorf("TLS of the %s connections: %w; what was loaded before stays in use", s.cfg.uses(), err)
	s.cfg.Metrics.failed(s.cfg.Uses)
	s.tellTheEnd(time.Now()) // most of all now: a renewal that went wrong is why certificates end
	news = err.Error() != s.lastSaid
	s.lastSaid = err.Error()
	return news, err
}

const (
	// settling is how long files must have been the same before a CA is trusted no more. A file that is being
	// written may look whole between two certificates, and whoever has one of a CA that is missing then
	// would be cut off, the other masters among them.
	settling = 2 * time.Second
	// looks is how often it is waited for that long.
	looks = 4
)

// settled reads the files again until they have not changed for a while.
func (s *Source) settled(c content) (content, error) {
	for range looks {
		timer := time.NewTimer(settling)
		select {
		case <-timer.C:
		case <-s.stop:
			timer.Stop()
			return content{}, errors.New("the node stops")
		}
		again, err := s.cfg.Files.read()
		if err != nil || again.digest() == c.digest() {
			return again, err
		}
		c = again
	}
	return content{}, fmt.Errorf("the files go on changing; write %s beside and rename it", s.cfg.Files.CA)
}

// wellAgain notes that the files are those in use, perhaps after a time when they were not.
func (s *Source) wellAgain() {
	if s.lastSaid != "" {
		s.lastSaid = ""
		s.cfg.Logger.Info("the TLS files are again those in use", "uses", s.cfg.uses())
	}
	s.cfg.Metrics.again(s.cfg.Uses)
	s.tellTheKey()
	s.tellTheEnd(time.Now())
}

// take puts a content of the files into use.
func (s *Source) take(c content) error {
	now := time.Now()
	l, err := s.cfg.Files.load(c, now)
	if err != nil {
		return err
	}
	if s.cfg.Node != "" {
		if l.cert == nil {
			return errors.New("a master needs a certificate; name its file and its key's")
		}
		peer, err := holder(l.cert.Leaf)
		if err == nil {
			err = peer.expect(Expect{Node: s.cfg.Node})
		}
		if err != nil {
			return fmt.Errorf("%s: %w", s.cfg.Files.Cert, err)
		}
	}
	s.current.Store(l)
	s.inUse, s.lastSaid = c.digest(), ""
	s.cfg.Metrics.took(s.cfg.Uses, l, now)
	if l.cert != nil {
		s.cfg.Logger.Info("TLS certificate loaded", "uses", s.cfg.uses(), "file", s.cfg.Files.Cert,
			"name", l.cert.Leaf.Subject.CommonName, "not_after", l.notAfter.UTC().Format(time.RFC3339))
	}
	if l.pool != nil {
		s.cfg.Logger.Info("TLS CAs loaded", "uses", s.cfg.uses(), "file", s.cfg.Files.CA, "trusted", strings.Join(l.authorities(), "; "))
	}
	s.nearing, s.keyOpen = far, false
	s.tellTheKey()
	s.tellTheCA(l, now)
	s.tellTheEnd(now)
	return nil
}

// NotAfter returns when the certificate in use expires; zero where there is none.
func (s *Source) NotAfter() time.Time { return s.current.Load().notAfter }

// ClientAuth says what a server asks of clients.
type ClientAuth uint8

// What a server may ask of clients. A certificate that is given is verified in any case but the first.
const (
	ClientsNone ClientAuth = iota
	ClientsOptional
	ClientsRequired
)

// ParseClientAuth reads none, optional or required.
func ParseClientAuth(word string) (ClientAuth, error) {
	for i, known := range []string{"none", "optional", "required"} {
		if word == known {
			return ClientAuth(i), nil
		}
	}
	return 0, fmt.Errorf("%.40q is not none, optional or required", word)
}

func (a ClientAuth) tls() tls.ClientAuthType {
	switch a {
	case ClientsRequired:
		return tls.RequireAndVerifyClientCert
	case ClientsOptional:
		return tls.VerifyClientCertIfGiven
	case ClientsNone:
	}
	return tls.NoClientCert
}

// ServerOptions say how a server treats clients.
type ServerOptions struct {
	Clients ClientAuth
	// Role is what every certificate of a client must say; empty: any, or none. With RoleMaster the
	// certificate must name a node too.
	Role Role
	// Protocols are those of ALPN, such as "http/1.1"; none for Thrift and Raft.
	Protocols []string
}

// Server returns the configuration of a server. Each new connection gets what is loaded by then.
func (s *Source) Server(o ServerOptions) (*tls.Config, error) {
	now := s.current.Load()
	switch {
	case now.cert == nil:
		return nil, fmt.Errorf("TLS of the %s connections: a server needs a certificate; name its file and its key's", s.cfg.uses())
	case o.Clients != ClientsNone && now.pool == nil:
		return nil, fmt.Errorf("TLS of the %s connections: clients' certificates can be verified only against a CA file; name it", s.cfg.uses())
	case o.Clients == ClientsNone && o.Role != "":
		return nil, fmt.Errorf("TLS of the %s connections: a role is expected of clients that are not asked for a certificate", s.cfg.uses())
	}
	config := s.server(o)
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return s.server(o), nil }
	return config, nil
}

func (s *Source) server(o ServerOptions) *tls.Config {
	now := s.current.Load()
	return &tls.Config{
		MinVersion:             tls.VersionTLS12,
		CipherSuites:           suites(),
		Certificates:           []tls.Certificate{*now.cert},
		ClientAuth:             o.Clients.tls(),
		ClientCAs:              now.pool,
		NextProtos:             o.Protocols,
		VerifyConnection:       Expect{Role: o.Role}.verifier(o.Clients == ClientsOptional),
		SessionTicketsDisabled: true, // see the package's comment
	}
}

// Client returns the configuration of one dial; make another for the next, so that it is made with what
// is loaded by then. The server's certificate must be valid for the name or address dialled (ServerName,
// which tls.Dialer sets) and say what is expected.
func (s *Source) Client(want Expect) *tls.Config {
	now := s.current.Load()
	return &tls.Config{
		MinVersion:       tls.VersionTLS12,
		CipherSuites:     suites(),
		RootCAs:          now.pool,
		VerifyConnection: want.verifier(false),
		// Not Certificates: of those none is sent when the server names other CAs, and the server then
		// says that a certificate is missing, which it is not.
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			if now.cert == nil {
				return &tls.Certificate{}, nil
			}
			return now.cert, nil
		},
	}
}

// suites are those of TLS 1.2 with forward secrecy and an AEAD; those of 1.3 all are so.
func suites() []uint16 {
	return []uint16{
		tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
		tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
		tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
	}
}
