package tlsconf_test

import (
	"crypto/tls"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/lancemaster/lancemaster/internal/tlsconf"
)

// Reload in the middle: the connection that stands goes on, and the next one is made with the new
// certificates, on both sides.
func TestNewConnectionsGetTheNewestCertificateAndOldOnesLive(t *testing.T) {
	ca := newCA(t, "ca")
	serverFiles := newPlace(t, issue(t, ca, master("a")), ca)
	clientFiles := newPlace(t, issue(t, ca, tlsconf.Request{Name: "ada", Role: tlsconf.RoleRead}), ca)
	server, client := open(t, serverFiles), open(t, clientFiles)
	config, err := server.Server(tlsconf.ServerOptions{Clients: tlsconf.ClientsRequired})
	address, seen := serve(t, must(t, config, err))

	old, err := dial(t, address, client.Client(tlsconf.Expect{}))
	if err != nil {
		t.Fatal(err)
	}
	wasSerial := old.ConnectionState().PeerCertificates[0].SerialNumber
	first, err := tlsconf.PeerOf(<-seen)
	if err != nil || first.Name != "ada" || first.Role != tlsconf.RoleRead || first.Node != "" {
		t.Fatalf("got %+v, %v", first, err)
	}

	serverFiles.put(issue(t, ca, master("a")))
	clientFiles.put(issue(t, ca, tlsconf.Request{Name: "grace", Role: tlsconf.RoleOperate}))
	reload(t, server)
	reload(t, client)
	fresh, err := dial(t, address, client.Client(tlsconf.Expect{Node: "a"}))
	if err != nil {
		t.Fatal(err)
	}
	if serial := fresh.ConnectionState().PeerCertificates[0].SerialNumber; serial.Cmp(wasSerial) == 0 {
		t.Error("the new connection got the old certificate of the server")
	}
	second, err := tlsconf.PeerOf(<-seen)
	if err != nil || second.Name != "grace" || second.Role != tlsconf.RoleOperate {
		t.Errorf("got %+v, %v", second, err)
	}
	if err := echo(old); err != nil {
		t.Errorf("the old connection was dropped: %v", err)
	}
}

// A CA that is trusted no longer must not let anybody in, by no session of before either.
func TestARemovedCAIsRefusedForNewConnections(t *testing.T) {
	t.Parallel() // it waits until files have settled
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		before, after := newCA(t, "before"), newCA(t, "after")
		serverFiles := newPlace(t, issue(t, after, master("a")), before, after)
		server := open(t, serverFiles)
		client := open(t, newPlace(t, issue(t, before, tlsconf.Request{Name: "ada", Role: tlsconf.RoleRead}), after))
		config, err := server.Server(tlsconf.ServerOptions{Clients: tlsconf.ClientsRequired})
		address, _ := serve(t, must(t, config, err))

		// A client that would resume wherever it can.
		resuming := client.Client(tlsconf.Expect{})
		resuming.ClientSessionCache, resuming.MaxVersion = tls.NewLRUClientSessionCache(8), version
		old, err := dial(t, address, resuming)
		if err != nil {
			t.Fatal(err)
		}
		again, err := dial(t, address, resuming)
		if err != nil {
			t.Fatal(err)
		}
		if again.ConnectionState().DidResume {
			t.Error("the server resumed a session")
		}
		serverFiles.trust(after)
		reload(t, server)
		if _, err := dial(t, address, resuming); err == nil {
			t.Error("a client of a CA that is trusted no longer was let in")
		}
		if err := echo(old); err != nil {
			t.Errorf("the old connection was dropped: %v", err)
		}
	}
}

// A client that has reloaded trusts the server of the old CA no longer.
func TestAClientHoldsServersAgainstTheNewestCAs(t *testing.T) {
	t.Parallel() // it waits until files have settled
	before, after := newCA(t, "before"), newCA(t, "after")
	server := open(t, newPlace(t, issue(t, before, master("a")), before))
	clientFiles := newPlace(t, issue(t, before, tlsconf.Request{Name: "ada", Role: tlsconf.RoleRead}), before)
	client := open(t, clientFiles)
	config, err := server.Server(tlsconf.ServerOptions{Clients: tlsconf.ClientsRequired})
	address, _ := serve(t, must(t, config, err))
	if _, err := dial(t, address, client.Client(tlsconf.Expect{})); err != nil {
		t.Fatal(err)
	}
	clientFiles.trust(after)
	reload(t, client)
	var wrong *tls.CertificateVerificationError
	if _, err := dial(t, address, client.Client(tlsconf.Expect{})); !errors.As(err, &wrong) {
		t.Errorf("got %v", err)
	}
}

func TestWhoIsLetIn(t *testing.T) {
	ca, stranger := newCA(t, "ca"), newCA(t, "stranger")
	const role, node = "lancemaster://role/", "lancemaster://node/"
	later := time.Now().Add(day / 2)
	none := tlsconf.Pair{}
	for _, tc := range []struct {
		name    string
		client  tlsconf.Pair
		options tlsconf.ServerOptions
		want    bool
	}{
		{"any role", issue(t, ca, tlsconf.Request{Name: "b", Role: tlsconf.RoleBackend}), tlsconf.ServerOptions{Clients: tlsconf.ClientsRequired}, true},
		{"no role where none is needed", custom(t, ca, "x", later), tlsconf.ServerOptions{Clients: tlsconf.ClientsRequired}, true},
		{"no certificate", none, tlsconf.ServerOptions{Clients: tlsconf.ClientsRequired}, false},
		{"no certificate, optional", none, tlsconf.ServerOptions{Clients: tlsconf.ClientsOptional}, true},
		{"no certificate, optional with a role", none, tlsconf.ServerOptions{Clients: tlsconf.ClientsOptional, Role: tlsconf.RoleBackend}, true},
		{"no certificate, not asked for", none, tlsconf.ServerOptions{}, true},
		{"another CA", issue(t, stranger, master("a")), tlsconf.ServerOptions{Clients: tlsconf.ClientsRequired}, false},
		{"another CA, optional", issue(t, stranger, master("a")), tlsconf.ServerOptions{Clients: tlsconf.ClientsOptional}, false},
		{"expired", custom(t, ca, "x", time.Now().Add(-time.Minute), role+"read"), tlsconf.ServerOptions{Clients: tlsconf.ClientsRequired}, false},
		{"not yet valid", custom(t, ca, "x", time.Now().Add(2*day), role+"read"), tlsconf.ServerOptions{Clients: tlsconf.ClientsRequired}, false},
		{"the role", issue(t, ca, tlsconf.Request{Name: "b", Role: tlsconf.RoleBackend}), tlsconf.ServerOptions{Clients: tlsconf.ClientsRequired, Role: tlsconf.RoleBackend}, true},
		{"the wrong role", issue(t, ca, tlsconf.Request{Name: "b", Role: tlsconf.RoleAdmin}), tlsconf.ServerOptions{Clients: tlsconf.ClientsRequired, Role: tlsconf.RoleBackend}, false},
		{"the wrong role, optional", issue(t, ca, tlsconf.Request{Name: "b", Role: tlsconf.RoleAdmin}), tlsconf.ServerOptions{Clients: tlsconf.ClientsOptional, Role: tlsconf.RoleBackend}, false},
		{"no role", custom(t, ca, "x", later), tlsconf.ServerOptions{Clients: tlsconf.ClientsRequired, Role: tlsconf.RoleBackend}, false},
		{"a master", issue(t, ca, master("b")), tlsconf.ServerOptions{Clients: tlsconf.ClientsRequired, Role: tlsconf.RoleMaster}, true},
		{"a master without a node", custom(t, ca, "x", later, role+"master"), tlsconf.ServerOptions{Clients: tlsconf.ClientsRequired, Role: tlsconf.RoleMaster}, false},
		{"a backend that names a node", custom(t, ca, "x", later, role+"backend", node+"a"), tlsconf.ServerOptions{Clients: tlsconf.ClientsRequired, Role: tlsconf.RoleBackend}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			// A client of its own, so that it may hold what a Source refuses to load.
			config := open(t, newPlace(t, issue(t, ca, master("a")), ca)).Client(tlsconf.Expect{})
			config.GetClientCertificate = nil
			if len(tc.client.Cert) > 0 {
				pair, err := tls.X509KeyPair(tc.client.Cert, tc.client.Key())
				if err != nil {
					t.Fatal(err)
				}
				config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
			}
			server, err := open(t, newPlace(t, issue(t, ca, master("a")), ca)).Server(tc.options)
			address, _ := serve(t, must(t, server, err))
			if _, err := dial(t, address, config); (err == nil) != tc.want {
				t.Errorf("let in: %v (%v), want %v", err == nil, err, tc.want)
			}
		})
	}
}

// What a client refuses of a server, before it has said anything.
func TestWhomAClientTrusts(t *testing.T) {
	ca := newCA(t, "ca")
	elsewhere := master("a")
	elsewhere.Hosts = []string{"elsewhere.example"}
	for _, tc := range []struct {
		name   string
		server tlsconf.Pair
		want   tlsconf.Expect
		fault  string
	}{
		{"the node", issue(t, ca, master("a")), tlsconf.Expect{Node: "a"}, ""},
		{"any master", issue(t, ca, master("a")), tlsconf.Expect{Role: tlsconf.RoleMaster}, ""},
		{"whoever", issue(t, ca, master("a")), tlsconf.Expect{}, ""},
		{"another node", issue(t, ca, master("b")), tlsconf.Expect{Node: "a"}, `is of node "b" where node "a" is expected`},
		{"another role", issue(t, ca, tlsconf.Request{Name: "a", Role: tlsconf.RoleBackend, Hosts: []string{"127.0.0.1"}}), tlsconf.Expect{Node: "a"}, "has the role backend where master is needed"},
		{"another host", issue(t, ca, elsewhere), tlsconf.Expect{Node: "a"}, "127.0.0.1"},
		{"a certificate for clients only", issue(t, ca, tlsconf.Request{Name: "a", Role: tlsconf.RoleAdmin}), tlsconf.Expect{}, "x509"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			server, err := open(t, newPlace(t, tc.server, ca)).Server(tlsconf.ServerOptions{})
			address, _ := serve(t, must(t, server, err))
			client := open(t, newPlace(t, issue(t, ca, master("c")), ca))
			_, err = dial(t, address, client.Client(tc.want))
			if tc.fault == "" && err != nil || tc.fault != "" && (err == nil || !strings.Contains(err.Error(), tc.fault)) {
				t.Errorf("got %v, want %q", err, tc.fault)
			}
		})
	}
}

// A client without a certificate of its own still verifies the server.
func TestAClientWithOnlyACA(t *testing.T) {
	ca := newCA(t, "ca")
	p := newPlace(t, issue(t, ca, master("a")), ca)
	config, err := open(t, p).Server(tlsconf.ServerOptions{})
	address, _ := serve(t, must(t, config, err))
	p.Files = tlsconf.Files{CA: p.CA}
	client := open(t, p)
	if _, err := dial(t, address, client.Client(tlsconf.Expect{Node: "a"})); err != nil {
		t.Error(err)
	}
	if _, err := client.Server(tlsconf.ServerOptions{}); err == nil || !strings.Contains(err.Error(), "a server needs a certificate") {
		t.Errorf("got %v", err)
	}
}

// Nothing below TLS 1.2, and of 1.2 nothing without forward secrecy and an AEAD.
func TestOldVersionsAndSuitesAreRefused(t *testing.T) {
	ca := newCA(t, "ca")
	source := open(t, newPlace(t, issue(t, ca, master("a")), ca))
	config, err := source.Server(tlsconf.ServerOptions{Protocols: []string{"http/1.1"}})
	address, seen := serve(t, must(t, config, err))
	// The suites alone keep 1.1 out too; neither shall lean on the other.
	each, err := config.GetConfigForClient(nil)
	for _, c := range []*tls.Config{config, must(t, each, err), source.Client(tlsconf.Expect{})} {
		if c.MinVersion != tls.VersionTLS12 {
			t.Errorf("the least version is %s", tls.VersionName(c.MinVersion))
		}
	}
	for _, tc := range []struct {
		name   string
		change func(*tls.Config)
		want   bool
	}{
		{"1.3", func(c *tls.Config) { c.MinVersion = tls.VersionTLS13 }, true},
		{"1.2", func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 }, true},
		{"1.1", func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS10, tls.VersionTLS11 }, false},
		{"1.2 with CBC", func(c *tls.Config) {
			c.MaxVersion, c.CipherSuites = tls.VersionTLS12, []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA}
		}, false},
	} {
		client := source.Client(tlsconf.Expect{})
		client.NextProtos = []string{"http/1.1"}
		tc.change(client)
		_, err := dial(t, address, client)
		if (err == nil) != tc.want {
			t.Errorf("%s: connected: %v (%v), want %v", tc.name, err == nil, err, tc.want)
		}
		if tc.want {
			if got := <-seen; got.NegotiatedProtocol != "http/1.1" {
				t.Errorf("%s: ALPN chose %q", tc.name, got.NegotiatedProtocol)
			}
		}
	}
}

func TestServerOptionsThatCannotWork(t *testing.T) {
	ca := newCA(t, "ca")
	p := newPlace(t, issue(t, ca, master("a")), ca)
	if _, err := open(t, p).Server(tlsconf.ServerOptions{Role: tlsconf.RoleBackend}); err == nil {
		t.Error("a role of clients that are not asked was accepted")
	}
	p.CA = ""
	if _, err := open(t, p).Server(tlsconf.ServerOptions{Clients: tlsconf.ClientsRequired}); err == nil || !strings.Contains(err.Error(), "CA file") {
		t.Errorf("got %v", err)
	}
	for word, want := range map[string]tlsconf.ClientAuth{"none": tlsconf.ClientsNone, "optional": tlsconf.ClientsOptional, "required": tlsconf.ClientsRequired} {
		if got, err := tlsconf.ParseClientAuth(word); err != nil || got != want {
			t.Errorf("%s: got %v, %v", word, got, err)
		}
	}
	if _, err := tlsconf.ParseClientAuth("yes"); err == nil {
		t.Error("yes was accepted")
	}
}
