package app

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lancemaster/lancemaster/internal/config"
)

// elsewhere is a listener on loopback that says it is bound to an address of the machine's network.
type elsewhere struct{ net.Listener }

func (elsewhere) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 9} }

// What counts is the address that was really bound: a name that says this machine may lead elsewhere.
func TestANameThatLeadsElsewhereIsRefused(t *testing.T) {
	for key, more := range map[string]map[string]string{
		"raft.listen": nil, "admin.listen": nil, "raft.listen, trusted": {"raft.trusted_network": "true"},
	} {
		t.Run(key, func(t *testing.T) {
			key, _, trusted := strings.Cut(key, ", ")
			overrides := map[string]string{"data_dir": filepath.Join(t.TempDir(), "data"), key: "localhost:0"}
			for _, k := range []string{"raft.listen", "admin.listen", "report.listen", "http.listen"} {
				if overrides[k] == "" {
					overrides[k] = "127.0.0.1:0"
				}
			}
			for k, v := range more {
				overrides[k] = v
			}
			if trusted {
				overrides["raft.advertise"] = "10.0.0.1:9"
			}
			cfg, err := config.Load("", nil, overrides)
			if err != nil {
				t.Fatal(err)
			}
			a, err := New(cfg, Options{Listen: func(ctx context.Context, network, address string) (net.Listener, error) {
				l, err := (&net.ListenConfig{}).Listen(ctx, network, address)
				if err == nil && strings.HasPrefix(address, "localhost:") {
					l = elsewhere{l}
				}
				return l, err
			}})
			if err == nil {
				err = a.Start(t.Context())
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				defer cancel()
				err = errors.Join(err, a.Stop(ctx))
			}
			want := key + " leads to 10.0.0.1:9, which can be reached from other machines"
			if trusted && err != nil || !trusted && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("started with %v, want the refusal: %v", err, !trusted)
			}
		})
	}
}
