package app_test

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/lancemaster/lancemaster/internal/app"
	"github.com/lancemaster/lancemaster/internal/client"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// wait bounds what a test waits for; it is never reached on a working build.
const wait = 60 * time.Second

func startDev(t *testing.T, dir string) *app.Dev {
	t.Helper()
	d, err := app.StartDev(t.Context(), app.DevOptions{
		DataDir: dir, AdminListen: "127.0.0.1:0", ReportListen: "127.0.0.1:0", HTTPListen: "127.0.0.1:0",
		RaftListen: "127.0.0.1:0", StubListen: "127.0.0.1:0", StubHeartbeatListen: "127.0.0.1:0",
		Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func stop(t *testing.T, d *app.Dev) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	if err := d.Stop(ctx); err != nil {
		t.Error(err)
	}
	select {
	case err := <-d.Done():
		t.Errorf("the node met a fatal fault: %v", err)
	default:
	}
}

func dial(t *testing.T, d *app.Dev) *client.Client {
	t.Helper()
	c, err := client.New(client.Config{Addresses: []string{d.Addrs().Admin}, Name: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func demo(t *testing.T) client.Submission {
	t.Helper()
	dataset, err := filepath.Abs(filepath.Join("..", "..", "testdata", "lance", "typed.lance"))
	if err != nil {
		t.Fatal(err)
	}
	return client.Submission{
		Catalog: "local", Database: "demo", Table: "typed", Dataset: dataset, IndexName: "demo_vec", Mutation: "CREATE",
		IndexType: "ivf_pq", Column: "vec",
		Properties: []client.Property{{Key: "num_partitions", Value: "2"}, {Key: "num_sub_vectors", Value: "4"}},
	}
}

// A job against the stub lives and ends, and everything is there after a restart.
func TestAJobsLifeAndARestart(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	ctx, cancel := context.WithTimeout(t.Context(), wait)
	defer cancel()

	d := startDev(t, dir)
	c := dial(t, d)
	got, err := c.Submit(ctx, demo(t))
	if err != nil {
		t.Fatal(err)
	}
	end := follow(ctx, t, c, got.Job.ID)
	if end.State != "NOT_COMMITTED" || end.FenceHeld || end.SlotHeld || end.Open {
		t.Errorf("got %+v", end)
	}
	stop(t, d)

	d = startDev(t, dir)
	defer stop(t, d)
	c = dial(t, d)
	again, err := c.Job(ctx, got.Job.ID)
	if err != nil {
		t.Fatal(err)
	}
	if again.Revision != end.Revision || again.State != end.State {
		t.Errorf("after a restart: got %+v, want %+v", again, end)
	}
	if got, err = c.Submit(ctx, demo(t)); err != nil || got.Job.ID != 2 {
		t.Fatalf("the name is not free again: %+v, %v", got, err)
	}
	if end := follow(ctx, t, c, 2); end.State != "NOT_COMMITTED" {
		t.Errorf("got %+v", end)
	}
}

// The cluster is well: asking again would help nobody.
func TestAValueThatNoCommandCanHoldIsTheRequestsFault(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), wait)
	defer cancel()
	d := startDev(t, filepath.Join(t.TempDir(), "data"))
	defer stop(t, d)
	c := dial(t, d)
	for _, tc := range []struct {
		refresher client.Refresher
		says      string
	}{
		{client.Refresher{Kind: "smtp"}, `refresher "smtp" is not known`},
		{client.Refresher{Kind: "doris", Frontends: []string{"fe:9030"}, User: strings.Repeat("u", 2000)}, "refresher user is 2000 bytes long, at most 1024 are allowed"},
	} {
		_, err := c.PutCatalog(ctx, client.Catalog{Name: "lake", Refresher: tc.refresher})
		if e, ok := errors.AsType[*client.Error](err); !ok || e.Code != "INVALID" || e.Message != tc.says {
			t.Errorf("%s: got %v", tc.refresher.Kind, err)
		}
	}
}

func follow(ctx context.Context, t *testing.T, c *client.Client, id int64) *client.Job {
	t.Helper()
	j, err := c.Follow(ctx, id, client.Follow{Until: (*client.Job).Terminal})
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// Whoever sees a development node ready finds what a first job needs.
func TestADevelopmentNodeIsReadyOnceItIsSetUp(t *testing.T) {
	t.Parallel()
	d := startDev(t, filepath.Join(t.TempDir(), "data"))
	defer stop(t, d)
	c := dial(t, d)
	status, err := c.Status(t.Context(), d.Addrs().Admin)
	if err != nil || !status.Ready {
		t.Errorf("the node is not ready: %+v, %v", status, err)
	}
	if _, err := c.Catalog(t.Context(), "local"); err != nil {
		t.Error(err)
	}
	if list, err := c.Backends(t.Context()); err != nil || len(list) != 1 {
		t.Errorf("the backends are %+v, %v", list, err)
	}
}
