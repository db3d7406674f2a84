package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/lancemaster/lancemaster/internal/config"
	"github.com/lancemaster/lancemaster/internal/job"
	"github.com/lancemaster/lancemaster/internal/stub"
)

// DevOptions say where a development node listens. Empty addresses take the
// defaults of serve and of the stub.
type DevOptions struct {
	DataDir string

	AdminListen, ReportListen, HTTPListen, RaftListen string
	StubListen, StubHeartbeatListen                   string

	Logger *slog.Logger
}

// Dev is one master with an embedded stub backend, set up so that the first job
// can be submitted at once.
type Dev struct {
	app  *App
	stub *stub.Stub
}

const (
	devActor   = "dev"
	devCatalog = "local"
	// devLabel marks the backend that dev registered, so that the next start finds it.
	devLabel = "lancemaster-dev"
	// devStart bounds the wait for a node of one to lead.
	devStart = 30 * time.Second
)

// StartDev starts a development node: admission open, local datasets allowed, a
// catalog named local, and the stub backend registered.
func StartDev(ctx context.Context, o DevOptions) (_ *Dev, err error) {
	overrides := map[string]string{"node_id": "dev"}
	for key, value := range map[string]string{
		"data_dir": o.DataDir, "admin.listen": o.AdminListen, "report.listen": o.ReportListen,
		"http.listen": o.HTTPListen, "raft.listen": o.RaftListen,
	} {
		if value != "" {
			overrides[key] = value
		}
	}
	cfg, err := config.Load("", nil, overrides)
	if err != nil {
		return nil, err
	}
	d := &Dev{}
	d.app, err = New(cfg, Options{Logger: o.Logger})
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.Stop(context.WithoutCancel(ctx)))
		}
	}()
	d.app.settingUp.Store(true)
	if err := d.app.Start(ctx); err != nil {
		return nil, err
	}
	d.stub, err = stub.New(stub.Config{
		Listen: o.StubListen, HeartbeatListen: o.StubHeartbeatListen, Version: config.BuildInfo().Version, Logger: d.app.log.With("part", "stub"),
	})
	if err != nil {
		return nil, err
	}
	if err := d.stub.Start(ctx); err != nil {
		return nil, err
	}
	wait, cancel := context.WithTimeout(ctx, devStart)
	defer cancel()
	if err := d.app.WaitReady(wait); err != nil {
		return nil, fmt.Errorf("the node did not come to lead: %w", err)
	}
	if err := d.setUp(ctx); err != nil {
		return nil, err
	}
	d.app.settingUp.Store(false)
	return d, nil
}

// setUp journals what a first job needs, where it is not there yet.
func (d *Dev) setUp(ctx context.Context) error {
	header := job.Header{At: job.Millis(time.Now().UnixMilli()), Actor: devActor}
	commands := []job.Command{job.ChangeSettings{Header: header, Values: []job.SettingValue{
		{Name: "admission.enabled", Value: "true"}, {Name: "local_datasets.allowed", Value: "true"},
	}}}
	host, port, err := splitAddress(d.stub.Addr().String())
	if err != nil {
		return err
	}
	_, heartbeat, err := splitAddress(d.stub.HeartbeatAddr().String())
	if err != nil {
		return err
	}
	address := job.Address{Host: host, BePort: port, HeartbeatPort: heartbeat}
	d.app.machine.Read(func(l *job.Live) {
		if l.Catalog(devCatalog) == nil {
			commands = append(commands, job.PutCatalog{Header: header, Catalog: job.Catalog{
				Name: devCatalog, Refresher: job.Refresher{Kind: job.RefresherNone},
			}})
		}
		known := false
		for _, b := range l.Backends() {
			switch {
			case b.Address == address:
				known = true
			case isDevStub(b): // it listened on other ports last time
				commands = append(commands, job.RemoveBackend{Header: header, Backend: b.ID})
			}
		}
		if !known {
			commands = append(commands, job.AddBackend{Header: header, Address: address, Labels: []job.Label{{Key: devLabel, Value: "true"}}})
		}
	})
	for _, c := range commands {
		if _, err := d.app.journal.Propose(ctx, c); err != nil {
			if job.IsCode(err, job.CodeInUse) {
				d.app.log.Warn("the stub backend of an earlier start stays registered", "reason", err.Error())
				continue
			}
			return fmt.Errorf("cannot set up the development node: %w", err)
		}
	}
	return nil
}

func isDevStub(b *job.Backend) bool {
	for _, l := range b.Labels {
		if l.Key == devLabel {
			return true
		}
	}
	return false
}

// Done tells of a fault that the node must not survive.
func (d *Dev) Done() <-chan error { return d.app.Done() }

// Addrs returns where the node listens.
func (d *Dev) Addrs() Addresses { return d.app.Addrs() }

// StubAddr returns where the stub backend takes dispatches.
func (d *Dev) StubAddr() string { return d.stub.Addr().String() }

// Stop ends the node and then the stub, so that what is under way can still be
// answered.
func (d *Dev) Stop(ctx context.Context) error {
	err := d.app.Stop(ctx)
	if d.stub != nil {
		err = errors.Join(err, d.stub.Stop(ctx))
	}
	return err
}
