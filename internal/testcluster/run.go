package testcluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing/synctest"
	"time"

	"github.com/lancemaster/lancemaster/internal/client"
	"github.com/lancemaster/lancemaster/internal/oracle"
)

// Plan says what one run does.
type Plan struct {
	Dir      string
	Seed     uint64
	Over     time.Duration // of faults and load
	Clients  int
	Names    int    // of indexes; fewer mean more quarrels
	Notify   string // URL of a catalog's refresher; may be empty
	Logger   *slog.Logger
	Schedule Schedule // default: by the seed
}

// Run is a cluster under load and faults.
type Run struct {
	Cluster  *Cluster
	Backends []*Backend
	Recorder *oracle.Recorder
	Schedule Schedule
	Final    oracle.Final // what there was when all had settled

	plan     Plan
	load     *Load
	operator *client.Client
	clients  int
	side     sync.WaitGroup

	mu     sync.Mutex
	faults []error
}

// Perform does a whole run inside a bubble, and returns what broke the promise.
func Perform(plan Plan) (run *Run, faults []string) {
	random := rand.New(rand.NewPCG(plan.Seed, 0)) //nolint:gosec // repeatable on purpose
	r := &Run{plan: plan, clients: plan.Clients, Schedule: plan.Schedule}
	if r.Schedule == nil {
		r.Schedule = NewSchedule(random, plan.Over)
	}
	own := map[string]map[string]string{}
	if n := random.IntN(2 * masters); n < masters { // in every other run, one by chance
		own[masterName(n)] = Believer()
	}
	began := time.Now()
	r.Recorder = oracle.NewRecorder(func() oracle.Moment { return oracle.Moment(time.Since(began)) })
	r.Cluster = New(Config{Dir: plan.Dir, Masters: masters, Seed: plan.Seed, Logger: plan.Logger, Own: own, Overrides: map[string]string{
		"raft.snapshot_threshold": "60", "raft.trailing_logs": "20", "raft.snapshot_interval": "3s",
	}})
	err := r.prepare(random)
	if err == nil {
		r.suffer()
		r.Final, err = r.settle()
	}
	ending := r.end()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range append(r.faults, err, ending) {
		if e != nil {
			faults = append(faults, e.Error())
		}
	}
	if err == nil {
		faults = append(faults, oracle.Check(r.Recorder.Facts(), r.Final)...)
	}
	return r, faults
}

// check notes what must not fail.
func (r *Run) check(err error) {
	if err == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faults = append(r.faults, err)
}

// aside does something beside the schedule.
func (r *Run) aside(f func()) { r.side.Go(f) }

// operate has an operator ask for something, which may well fail under faults.
func (r *Run) operate(f func(context.Context, *client.Client) error) {
	r.aside(func() {
		ctx, cancel := context.WithTimeout(context.Background(), asideTime)
		defer cancel()
		_ = f(ctx, r.operator)
	})
}

func (r *Run) startAll() {
	for _, m := range r.Cluster.Masters {
		if m.Down() {
			r.check(m.Start(context.Background()))
		}
	}
}

const (
	formingTime  = time.Minute
	settlingTime = 10 * time.Minute
)

// prepare forms the cluster and gives it what load needs.
func (r *Run) prepare(random *rand.Rand) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), formingTime)
	defer cancel()
	if err := r.Cluster.Start(ctx); err != nil {
		return err
	}
	if r.operator, err = r.Cluster.NewClient(r.clients, random); err != nil {
		return err
	}
	if _, err := r.Cluster.WaitLeader(formingTime); err != nil {
		return err
	}
	var values []client.SettingValue
	for name, value := range map[string]string{
		"admission.enabled": "true", "dispatch.interval": "1s", "dispatch.max_inflight_per_backend": "4", "backend.heartbeat_interval": "1s",
		"backend.rpc_timeout": "4s", "dispatch.send_window": "2s", "refresh.retry_interval": "2s",
	} {
		values = append(values, client.SettingValue{Name: name, Value: value})
	}
	if _, err := r.operator.SetSettings(ctx, values); err != nil {
		return err
	}
	catalogs := map[string]client.Refresher{noop: {Kind: "none"}}
	names := []string{noop}
	if r.plan.Notify != "" {
		catalogs[notifies] = client.Refresher{Kind: "http", URL: r.plan.Notify}
		names = append(names, notifies)
	}
	for name, refresher := range catalogs {
		if _, err := r.operator.PutCatalog(ctx, client.Catalog{Name: name, Store: storeName, Refresher: refresher}); err != nil {
			return err
		}
	}
	for n := range backends {
		b, err := StartBackend(r.Cluster, n, r.Recorder, rand.New(rand.NewPCG(r.plan.Seed, uint64(10+n)))) //nolint:gosec // repeatable on purpose
		if err != nil {
			return err
		}
		r.Backends = append(r.Backends, b)
		if _, err := r.operator.AddBackend(ctx, client.NewBackend{Host: b.Addr.String(), Port: b.BePort(), HeartbeatPort: b.HeartbeatPort()}); err != nil {
			return err
		}
	}
	r.load, err = StartLoad(r.Cluster, r.Recorder, r.plan.Seed, r.clients, names, r.plan.Names)
	return err
}

// suffer goes through the schedule.
func (r *Run) suffer() {
	began := time.Now()
	for _, e := range r.Schedule {
		sleepUntil(began.Add(e.At))
		e.do(r)
	}
	sleepUntil(began.Add(r.plan.Over))
}

func sleepUntil(at time.Time) {
	t := time.NewTimer(time.Until(at))
	defer t.Stop()
	<-t.C
}

// settle ends all faults and waits until nothing happens any more.
func (r *Run) settle() (oracle.Final, error) {
	r.Cluster.Net.Heal()
	for _, m := range r.Cluster.Masters {
		m.SetClock(0)
	}
	r.load.Stop()
	r.side.Wait()
	r.startAll()
	ctx, cancel := context.WithTimeout(context.Background(), settlingTime)
	defer cancel()
	if _, err := r.Cluster.WaitLeader(time.Minute); err != nil {
		return oracle.Final{}, fmt.Errorf("after all faults have ended: %w", err)
	}
	var err error
	if !Until(time.Minute, func() bool { // an election may still be due
		_, err = r.operator.SetSettings(ctx, []client.SettingValue{
			{Name: "dispatch.paused", Value: "false"}, {Name: "admission.enabled", Value: "true"}, {Name: "dispatch.max_inflight_per_backend", Value: "8"},
		})
		return err == nil
	}) {
		return oracle.Final{}, fmt.Errorf("after all faults have ended: %w", err)
	}
	// Workers nobody heard of are gone, so that what waits for their slots goes on.
	for _, b := range r.Backends {
		b.Restart()
	}
	if err := r.untilQuiet(ctx); err != nil {
		return oracle.Final{}, err
	}
	final, err := oracle.Read(ctx, r.operator, r.Recorder)
	if err != nil {
		return final, fmt.Errorf("after all faults have ended: %w", err)
	}
	final.Nodes, err = r.states(ctx)
	return final, err
}

// untilQuiet waits until no job is under way, and none that could be sent waits.
func (r *Run) untilQuiet(ctx context.Context) error {
	var busy string
	quiet := 0
	if Until(settlingTime, func() bool {
		if busy = r.busy(ctx); busy != "" {
			quiet = 0
		} else {
			quiet++
		}
		return quiet == 3 || ctx.Err() != nil
	}) && ctx.Err() == nil {
		return nil
	}
	return fmt.Errorf("%s after all faults have ended: %s", settlingTime, busy)
}

func (r *Run) busy(ctx context.Context) string {
	sleepUntil(time.Now().Add(time.Second))
	page, err := r.operator.Jobs(ctx, client.JobQuery{Limit: 1000})
	if err != nil {
		return err.Error()
	}
	for _, j := range page.Jobs {
		switch {
		case j.State == client.StateRunning:
		case j.State == client.StatePending:
		case j.State != client.StateUnknown && j.FenceHeld: // a refresh is under way
		default:
			continue
		}
		return fmt.Sprintf("job %d is %s, refresh %s %q", j.ID, j.State, j.Refresh.State, j.Refresh.LastFailure)
	}
	return ""
}

// states reads the state of each master as its disk has it, when all have applied the same.
func (r *Run) states(ctx context.Context) (nodes []oracle.Node, err error) {
	var differs string
	same := Until(settlingTime, func() bool {
		applied := map[int64]bool{}
		for _, m := range r.Cluster.Masters {
			s, err := r.operator.Status(ctx, m.AdminAddr())
			if err != nil {
				differs = err.Error()
				return false
			}
			applied[s.AppliedIndex] = true
			differs = fmt.Sprintf("%v", applied)
		}
		return len(applied) == 1
	})
	if !same {
		return nil, fmt.Errorf("the masters have not applied the same: %s", differs)
	}
	synctest.Wait() // nobody writes now
	for _, m := range r.Cluster.Masters {
		file := filepath.Join(r.plan.Dir, "state-of-"+m.Name)
		if err := copyFile(m.StateFile(), file); err != nil {
			return nil, err
		}
		node, err := oracle.OpenState(m.Name, file)
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, node)
	}
	for _, n := range nodes {
		if n.Applied != nodes[0].Applied {
			return nil, errors.New("the masters said that they had applied the same, and have not")
		}
	}
	return nodes, nil
}

// end stops everything.
func (r *Run) end() error {
	r.Cluster.Net.Heal()
	r.side.Wait()
	if r.load != nil {
		r.load.Stop()
	}
	err := r.Cluster.Stop()
	for _, b := range r.Backends {
		ctx, cancel := context.WithTimeout(context.Background(), endPatience)
		err = errors.Join(err, b.Stop(ctx))
		cancel()
	}
	if r.operator != nil {
		err = errors.Join(err, r.operator.Close())
	}
	return err
}
