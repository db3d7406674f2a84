package app_test

import (
	"context"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lancemaster/lancemaster/internal/app"
	"github.com/lancemaster/lancemaster/internal/config"
)

func load(t *testing.T, overrides map[string]string) config.Config {
	t.Helper()
	for _, key := range []string{"report.listen", "admin.listen", "http.listen", "raft.listen"} {
		if overrides[key] == "" {
			overrides[key] = "127.0.0.1:0"
		}
	}
	cfg, err := config.Load("", nil, overrides)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// Data of another cluster is refused at the opening, before the node votes anywhere.
func TestAnotherClustersDataIsRefusedAtTheOpening(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	d := startDev(t, dir)
	stop(t, d)
	a, err := app.New(load(t, map[string]string{"node_id": "dev", "data_dir": dir, "cluster.id": "2147483647"}), app.Options{})
	if err == nil {
		_ = a.Stop(context.Background())
		t.Fatal("the data of another cluster was opened")
	}
	if !strings.HasPrefix(err.Error(), "cluster.id is 2147483647, but the data in "+dir+" is of cluster ") {
		t.Errorf("got %v", err)
	}
}

// Who meets a taken port is told which key to change.
func TestATakenPortNamesItsKey(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	for _, key := range []string{"report.listen", "admin.listen", "http.listen"} {
		a, err := app.New(load(t, map[string]string{"data_dir": filepath.Join(t.TempDir(), "data"), key: l.Addr().String()}), app.Options{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), wait)
		err = a.Start(ctx)
		if err == nil || !strings.Contains(err.Error(), l.Addr().String()) || !strings.HasSuffix(err.Error(), "; free the address or change "+key) {
			t.Errorf("%s: got %v", key, err)
		}
		if err := a.Stop(ctx); err != nil {
			t.Error(err)
		}
		cancel()
	}
}
