package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/spf13/cobra"

	"github.com/lancemaster/lancemaster/internal/app"
	"github.com/lancemaster/lancemaster/internal/config"
)

const serveLong = `Run a master until SIGTERM or SIGINT, which stop it within shutdown_timeout (default 10s); a second signal
ends it at once. SIGHUP reads the configuration again: what "config show" marks with "reload" changes at once,
and a faulty configuration changes nothing. The log goes to stderr.

A node's configuration comes from defaults, a YAML file (--config), the environment and flags, each over
the one before. A key of the file like raft.trailing_logs is the variable LANCEMASTER_RAFT_TRAILING_LOGS and
the flag --raft-trailing-logs, which says what it means. A key of the file that is not known is an error.
Durations are written like 10s or 1m. A secret is given by reference only: file:/absolute/path or env:NAME.
All keys, with their defaults:

%s
What all masters share is not here but in the settings: see lancemaster settings list.

Exit status: 0 stopped as told, 1 failed or could not start, 2 wrong usage.`

func (a *cli) serveCmd() *cobra.Command {
	var load func() (config.Config, error)
	cmd := a.leaf(&cobra.Command{
		Use:   "serve",
		Short: "Run a master",
		Long:  fmt.Sprintf(serveLong, configurationFile()),
		Example: `  lancemaster serve --data-dir /var/lib/lancemaster
  lancemaster serve --config /etc/lancemaster.yaml --log-level debug`,
	}, func(ctx context.Context, cmd *cobra.Command, _ []string) error {
		if err := refuseFlags(cmd, "addr", "output", "client-name", "call-timeout"); err != nil {
			return err
		}
		cfg, err := load()
		if err == nil {
			err = a.serve(ctx, cfg, load)
		}
		return a.inTheLog(cfg.LogFormat, err)
	})
	load = a.configuration(cmd)
	return cmd
}

// configurationFile is the file that says what holds without one.
func configurationFile() string {
	var out strings.Builder
	section := ""
	for _, f := range config.Flags() {
		parent, key, nested := strings.Cut(f.Key, ".")
		indent := "    "
		if nested {
			if parent != section {
				fmt.Fprintf(&out, "    %s:\n", parent)
			}
			section, indent = parent, "      "
		} else {
			key, section = f.Key, ""
		}
		value := f.Default
		if value == "" {
			value = `""`
		}
		fmt.Fprintf(&out, "%s%s: %s\n", indent, key, value)
	}
	return out.String()
}

// inTheLog logs why a master did not start or could not go on, where the log is of JSON: whoever collects it
// reads nothing else. A log of text takes the lines that every command's failure is told in.
func (a *cli) inTheLog(format string, err error) error {
	if err == nil || format != "json" {
		return err
	}
	log := nodeLogger(a.Err, slog.LevelError, format)
	for _, e := range parts(err) {
		log.Error("the master did not start, or ends", "error", e.Error())
	}
	return &statusError{status: exitFailed}
}

func (a *cli) serve(ctx context.Context, cfg config.Config, load func() (config.Config, error)) error {
	level := new(slog.LevelVar)
	level.Set(cfg.LogLevel)
	log := nodeLogger(a.Err, level, cfg.LogFormat)
	signals, end := notify()
	defer end()
	hangups, endHangups := notifyReload()
	defer endHangups()
	manager := newSupervisor(log)
	var n *app.App
	running := false // n is there for good, and not being made
	return tend(ctx, tending{
		signals: signals,
		reloads: hangups,
		ending:  manager.stopping,
		bound: func() time.Duration {
			if running {
				return n.ShutdownTimeout()
			}
			return cfg.ShutdownTimeout
		},
		start: func(ctx context.Context) (_ node, err error) {
			n, err = app.New(cfg, app.Options{Logger: log, LogLevel: level})
			if err != nil {
				return nil, err
			}
			if err := n.Start(ctx); err != nil {
				return nil, errors.Join(err, n.Stop(context.WithoutCancel(ctx)))
			}
			return n, nil
		},
		up: func() error {
			running = true
			at := n.Addrs()
			log.Info("started", "version", config.BuildInfo().Version, "node", cfg.NodeID,
				"admin", at.Admin, "report", at.Report, "http", at.HTTP, "raft", at.Raft)
			manager.ready(n.Healthy)
			return nil
		},
		reload: func(ctx context.Context) {
			manager.reloading(func() {
				next, err := load()
				if ctx.Err() == nil { // else the node stops, and it does not matter any more
					n.Reload(next, err)
				}
			})
		},
		slow: func() {
			n.ReloadIsSlow(slowReload)
			manager.tell(daemon.SdNotifyReady) // as before, for all that anybody can tell
		},
	})
}
