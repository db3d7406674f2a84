package app_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lancemaster/lancemaster/internal/app"
	"github.com/lancemaster/lancemaster/internal/await"
	"github.com/lancemaster/lancemaster/internal/client"
	"github.com/lancemaster/lancemaster/internal/config"
)

// names lets masters have fixed addresses while they listen on free ports of loopback.
type names struct {
	mu    sync.Mutex
	bound map[string]string
}

func (n *names) listen(ctx context.Context, network, address string) (net.Listener, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, network, "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.bound[address] = l.Addr().String()
	return l, nil
}

func (n *names) of(address string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.bound[address]
}

func (n *names) dial(ctx context.Context, network, address string) (net.Conn, error) {
	at := n.of(address)
	if at == "" {
		return nil, fmt.Errorf("nobody listens on %s", address)
	}
	var d net.Dialer
	return d.DialContext(ctx, network, at)
}

// master is one of three masters, m1 to m3.
type master struct {
	*app.App
	names  *names
	number int
	dir    string
}

func (m *master) at(port int) string { return fmt.Sprintf("127.0.0.%d:%d", m.number, port) }

func (m *master) start(t *testing.T, more map[string]string) {
	t.Helper()
	overrides := map[string]string{
		"node_id": fmt.Sprint("m", m.number), "data_dir": m.dir, "cluster.members": "m1=127.0.0.1:9010,m2=127.0.0.2:9010,m3=127.0.0.3:9010",
		"raft.listen": m.at(9010), "raft.advertise": m.at(9010), "report.listen": m.at(9020), "admin.listen": m.at(9021), "http.listen": m.at(8030),
	}
	for key, value := range more {
		overrides[key] = value
	}
	cfg, err := config.Load("", nil, overrides)
	if err != nil {
		t.Fatal(err)
	}
	m.App, err = app.New(cfg, app.Options{
		Logger: slog.New(slog.NewTextHandler(t.Output(), nil)).With("node", cfg.NodeID), Dial: m.names.dial, Listen: m.names.listen,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Start(t.Context()); err != nil {
		t.Fatal(errors.Join(err, m.Stop(context.Background())))
	}
}

func (m *master) stop(t *testing.T) {
	t.Helper()
	if m.App == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	if err := m.Stop(ctx); err != nil {
		t.Errorf("stopping m%d: %v", m.number, err)
	}
	m.App = nil
}

func clientOf(t *testing.T, masters ...*master) *client.Client {
	t.Helper()
	var addresses []string
	for _, m := range masters {
		addresses = append(addresses, m.names.of(m.at(9021)))
	}
	c, err := client.New(client.Config{Addresses: addresses, Name: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// saved saves a snapshot as the command does, without its checks.
func saved(ctx context.Context, t *testing.T, c *client.Client) (path string, info *client.SnapshotInfo) {
	t.Helper()
	info, err := c.SnapshotBegin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var data []byte
	for int64(len(data)) < info.Size {
		part, err := c.SnapshotRead(ctx, info, int64(len(data)), client.MaxSnapshotChunk)
		if err != nil {
			t.Fatal(err)
		}
		data = append(data, part...)
	}
	path = filepath.Join(t.TempDir(), "backup.lms")
	if err := errors.Join(c.SnapshotEnd(ctx, info), os.WriteFile(path, data, 0o600)); err != nil {
		t.Fatal(err)
	}
	return path, info
}

// catalogs are the names that a cluster knows, read behind a barrier.
func catalogs(ctx context.Context, t *testing.T, c *client.Client) (list []string) {
	t.Helper()
	all, err := c.Catalogs(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range all {
		list = append(list, k.Name)
	}
	return list
}

func put(ctx context.Context, t *testing.T, c *client.Client, name string) {
	t.Helper()
	_, err := c.PutCatalog(ctx, client.Catalog{Name: name, Store: "s3", Refresher: client.Refresher{Kind: "none"}})
	if err != nil {
		t.Fatal(err)
	}
}

// One of three is restored from a backup while the other two go on, which is the very mistake that the
// page on backups warns of. The two clusters have nothing to do with each other: neither the restored node
// nor the old ones take anything from the other side. A wiped disk joins the restored one.
func TestARestoredNodeAndItsFormerCluster(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 2*wait)
	defer cancel()
	n := &names{bound: map[string]string{}}
	var masters []*master
	for i := range 3 {
		m := &master{names: n, number: i + 1, dir: filepath.Join(t.TempDir(), "data")}
		masters = append(masters, m)
		t.Cleanup(func() { m.stop(t) })
		m.start(t, nil)
	}
	m1, m2, m3 := masters[0], masters[1], masters[2]
	put(ctx, t, clientOf(t, masters...), "before")
	backup, info := saved(ctx, t, clientOf(t, masters...))

	m1.stop(t)
	_, err := app.Restore(ctx, app.RestoreOptions{
		Offline: app.Offline{DataDir: m1.dir, NodeID: "m1", Address: m1.at(9010)}, File: backup, ExpectCluster: info.ClusterID, Replace: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	m1.start(t, nil)
	restored, old := clientOf(t, m1), clientOf(t, m2, m3)
	put(ctx, t, old, "old")
	put(ctx, t, restored, "restored")
	if got := catalogs(ctx, t, old); !slices.Equal(got, []string{"before", "old"}) {
		t.Errorf("the former cluster knows %v", got)
	}
	if got := catalogs(ctx, t, restored); !slices.Equal(got, []string{"before", "restored"}) {
		t.Errorf("the restored one knows %v", got)
	}
	state, err := restored.Cluster(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if !state.Node.Quarantined || state.Node.Incarnation != 2 || state.Node.ClusterID != info.ClusterID || len(state.Members) != 1 ||
		!strings.HasPrefix(state.Node.QuarantineCause, "restored from a snapshot that ends at entry ") {
		t.Errorf("the restored cluster is %+v", state)
	}
	m2.stop(t)
	m3.stop(t)

	// An old disk is not taken, and a wiped one is.
	m2.start(t, nil)
	if _, err := restored.AddMember(ctx, "m2", m2.at(9010)); err == nil || !strings.Contains(err.Error(), "incarnation") {
		t.Errorf("a disk of the former cluster: %v", err)
	}
	var why string // that node is not ready, with what to do about it
	former := clientOf(t, m2)
	if !await.Poll(50*time.Millisecond, time.Minute, func() bool {
		s, err := former.Status(ctx, n.of(m2.at(9021)))
		if err == nil {
			why = s.NotReadyReason
		}
		return strings.Contains(why, " m1 (NEW_INCARNATION): ") || strings.Contains(why, "m1 refuses this master (")
	}) || !strings.Contains(why, "empty its data directory") {
		t.Errorf("the disk of the former cluster says of itself: %s", why)
	}
	m2.stop(t)
	m2.dir = filepath.Join(t.TempDir(), "wiped")
	m2.start(t, map[string]string{"cluster.members": "", "cluster.join": "true", "cluster.id": fmt.Sprint(info.ClusterID)})
	if _, err := restored.AddMember(ctx, "m2", m2.at(9010)); err != nil {
		t.Fatal(err)
	}
	if !await.Poll(50*time.Millisecond, time.Minute, func() bool {
		state, err = restored.Cluster(ctx)
		return err == nil && len(state.Members) == 2 && !slices.ContainsFunc(state.Members, func(m client.Member) bool { return !m.Voter })
	}) {
		t.Fatalf("the wiped disk does not become a voter: %+v, %v", state, err)
	}
	status, err := clientOf(t, m2).Status(ctx, n.of(m2.at(9021)))
	if err != nil || status.Incarnation != 2 || !status.Quarantined {
		t.Errorf("the member that joined is %+v, %v", status, err)
	}
}
