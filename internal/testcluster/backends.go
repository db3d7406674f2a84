package testcluster

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/lancemaster/lancemaster/gen-go/backend"
	"github.com/lancemaster/lancemaster/gen-go/shared"
	"github.com/lancemaster/lancemaster/internal/oracle"
	"github.com/lancemaster/lancemaster/internal/scripted"
	"github.com/lancemaster/lancemaster/internal/thriftnet"
)

// Backend is a scripted backend on the cluster's network that does at random what backends may do,
// and what networks do to them.
type Backend struct {
	*scripted.Backend
	Name string
	Addr netip.Addr

	recorder *oracle.Recorder
	masters  []*Master
	checks   bool // refuses a foreign process epoch, as the contract asks

	mu      sync.Mutex
	random  *rand.Rand
	epoch   int64
	process context.Context // of the present one
	kill    context.CancelFunc
	working sync.WaitGroup
}

// BackendAddr is the address of the nth backend.
func BackendAddr(n int) netip.Addr { return nth("127.0.1.", n) }

// StartBackend starts the nth backend. The first one checks process epochs and the others do not.
func StartBackend(c *Cluster, n int, recorder *oracle.Recorder, random *rand.Rand) (*Backend, error) {
	b := &Backend{Name: fmt.Sprintf("b%d", n+1), Addr: BackendAddr(n), recorder: recorder, masters: c.Masters, checks: n == 0, random: random}
	var err error
	if b.Backend, err = startScripted(c, n, b.Name, recorder); err != nil {
		return nil, err
	}
	b.epoch = time.Now().UnixMilli()
	b.process, b.kill = context.WithCancel(b.Context())
	b.OnSubmit(b.submit)
	return b, nil
}

// startScripted starts a backend at the nth address that has no script yet.
func startScripted(c *Cluster, n int, name string, recorder *oracle.Recorder) (*scripted.Backend, error) {
	host := c.Net.Host(BackendAddr(n))
	return scripted.Start(scripted.Config{
		Name: name, Address: BackendAddr(n).String(), Recorder: recorder,
		Speak: thriftnet.ClientConfig{Dial: host.Dial, Timeout: 5 * time.Second},
		Listen: func(ctx context.Context, address string) (net.Listener, error) {
			return host.Listen(ctx, "tcp", address)
		},
	})
}

// Restart replaces the process: its workers and what they had to report are gone.
func (b *Backend) Restart() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.kill()
	b.recorder.Ended(oracle.Gone{Backend: b.Name, Process: b.epoch})
	b.process, b.kill = context.WithCancel(b.Context())
	b.Backend.Restart()
	b.epoch++
}

// Stop ends the backend and its workers.
func (b *Backend) Stop(ctx context.Context) error {
	b.mu.Lock()
	b.kill()
	b.mu.Unlock()
	err := b.Backend.Stop(ctx)
	b.working.Wait()
	return err
}

// Chances, in percent, of what a backend does with a dispatch and with a report.
const (
	refuses     = 6
	hangsUp     = 6 // after it has taken the job
	answersLate = 5
	neverTells  = 8
	tellsTwice  = 15
	tellsLate   = 6 // after the job's deadline
	tellsAnyone = 30
)

// codes are what workers end with; most succeed.
var codes = []shared.TLanceIndexResultCode{
	shared.TLanceIndexResultCode_NATIVE_OK, shared.TLanceIndexResultCode_NATIVE_OK, shared.TLanceIndexResultCode_NATIVE_OK,
	shared.TLanceIndexResultCode_NATIVE_OK, shared.TLanceIndexResultCode_NATIVE_OK, shared.TLanceIndexResultCode_NATIVE_OK,
	shared.TLanceIndexResultCode_NATIVE_COMMIT_CONFLICT, shared.TLanceIndexResultCode_NATIVE_NOT_FOUND, shared.TLanceIndexResultCode_NATIVE_IO,
	shared.TLanceIndexResultCode_PRE_INVOCATION_STALE_ADMISSION,
}

func (b *Backend) submit(d *backend.TLanceIndexJobDispatch) scripted.Answer {
	b.mu.Lock()
	defer b.mu.Unlock()
	lot := func(percent int) bool { return b.random.IntN(100) < percent }
	if b.checks && d.BeProcessEpoch != b.epoch {
		return scripted.Answer{Status: shared.TStatusCode_CANCELLED, Text: "meant for another process"}
	}
	if lot(refuses) {
		return scripted.Answer{Status: shared.TStatusCode_TOO_MANY_TASKS, Text: "not now"}
	}
	b.recorder.Took(oracle.Taken{Backend: b.Name, Process: b.epoch, Job: d.JobID})
	if !lot(neverTells) {
		b.workLocked(d)
	}
	switch {
	case lot(hangsUp):
		return scripted.Answer{Cut: true}
	case lot(answersLate):
		held := make(chan struct{})
		time.AfterFunc(time.Duration(b.random.Int64N(int64(10*time.Second))), func() { close(held) })
		return scripted.Answer{Held: held}
	}
	return scripted.Answer{}
}

// workLocked plays a worker that reports in its own time, once, twice, or late.
func (b *Backend) workLocked(d *backend.TLanceIndexJobDispatch) {
	lot := func(percent int) bool { return b.random.IntN(100) < percent }
	ctx, code := b.process, codes[b.random.IntN(len(codes))]
	takes := time.Duration(b.random.Int64N(int64(3 * time.Second)))
	if lot(tellsLate) {
		takes += executeDeadline
	}
	to := func() string { return "" }
	if lot(tellsAnyone) {
		m := b.masters[b.random.IntN(len(b.masters))]
		to = func() string { return m.at(reportPort) }
	}
	reports := 1
	if lot(tellsTwice) {
		reports = 2
	}
	for range reports {
		b.working.Go(func() {
			done := time.NewTimer(takes)
			defer done.Stop()
			select {
			case <-done.C:
				b.ReportUntilTaken(ctx, to, scripted.ResultOf(d, code))
			case <-ctx.Done():
			}
		})
	}
}
