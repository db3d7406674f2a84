// Package stubcli is the command line of lanceworker-stub, a backend that accepts no work: it answers every
// dispatch with NOT_IMPLEMENTED_ERROR, so that a job's whole life can be seen without building an index. For
// tests and demonstrations it can be told to simulate what backends do; it says so wherever it speaks.
package stubcli

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/lancemaster/lancemaster/internal/config"
	"github.com/lancemaster/lancemaster/internal/stub"
)

// stopTimeout bounds the stop after a signal.
const stopTimeout = 5 * time.Second

// Command is the program's only command.
func Command(out, errOut io.Writer) *cobra.Command {
	var listen, heartbeat, format string
	var rules []string
	cmd := &cobra.Command{
		Use:   "lanceworker-stub",
		Short: "A stand-in backend that accepts no work",
		Long: "A stand-in backend that accepts no work: it answers heartbeats, and every dispatch with\n" +
			"NOT_IMPLEMENTED_ERROR, so that jobs end NOT_COMMITTED. It stores nothing and stops on SIGTERM.\n\n" +
			"With --simulate it pretends, for tests and demonstrations: it still builds nothing, and what it reports\n" +
			"is SIMULATED. Its first line of output, its log, the version it tells in heartbeats and the messages of\n" +
			"its answers and reports all say so. Register it with --label simulated=true, and never beside a backend\n" +
			"that works. Reports go out as real backends send them: again after a failed call only, three times in all.\n" +
			"SIGHUP makes it look restarted: a new process epoch, and nothing is left of its jobs.\n\n" + stub.RulesHelp,
		Example: "  lanceworker-stub\n" +
			"  lanceworker-stub --simulate report=NATIVE_OK,after=2s,proof=CHILD_REAPED\n" +
			"  lanceworker-stub --simulate 'lost_*:report=NATIVE_IO' --simulate 'busy_*:status=TOO_MANY_TASKS'",
		Version:       config.BuildInfo().Version,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			logger, err := newLogger(errOut, format)
			if err != nil {
				return err
			}
			cfg := stub.Config{
				Listen: listen, HeartbeatListen: heartbeat, Version: "lanceworker-stub " + config.BuildInfo().Version, Logger: logger,
			}
			if len(rules) == 0 {
				return run(cmd.Context(), out, cfg, "accepts no work", nil)
			}
			if cfg, err = simulating(cfg, rules); err != nil {
				return fmt.Errorf("--simulate: %w", err)
			}
			logger.Warn("outcomes are SIMULATED: no index is built, whatever is reported", "rules", rules)
			restarts := make(chan os.Signal, 1)
			signal.Notify(restarts, syscall.SIGHUP)
			defer signal.Stop(restarts)
			return run(cmd.Context(), out, cfg, "SIMULATES outcomes and builds no index", restarts)
		},
	}
	cmd.SetOut(out)
	cmd.SetErr(errOut)
	cmd.Flags().StringVar(&listen, "listen", stub.DefaultListen, "where dispatches are taken, host:port (port 0 picks one)")
	cmd.Flags().StringVar(&heartbeat, "heartbeat-listen", stub.DefaultHeartbeatListen, "where heartbeats are answered, host:port (port 0 picks one)")
	cmd.Flags().StringVar(&format, "log-format", "text", "text or json, on standard error")
	cmd.Flags().StringArrayVar(&rules, "simulate", nil, "SIMULATE an outcome: a `RULE` as above; may be repeated, the first that matches decides")
	return cmd
}

// simulating makes a stub follow rules, and say of itself that it does.
func simulating(cfg stub.Config, rules []string) (stub.Config, error) {
	behaviour, err := stub.ParseRules(rules)
	cfg.Behaviour = behaviour
	cfg.Version += " SIMULATED"
	return cfg, err
}

func newLogger(w io.Writer, format string) (*slog.Logger, error) {
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(w, nil)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, nil)), nil
	default:
		return nil, fmt.Errorf("--log-format %q is neither text nor json", format)
	}
}

// run serves until ctx ends, saying what it does, and looks like a restarted process after each
// signal of restarts.
func run(ctx context.Context, out io.Writer, cfg stub.Config, does string, restarts <-chan os.Signal) error {
	s, err := stub.New(cfg)
	if err != nil {
		return err
	}
	if err := s.Start(ctx); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "lanceworker-stub %s; backend %s heartbeat %s\n", does, s.Addr(), s.HeartbeatAddr())
	for err == nil && ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-restarts:
			s.Restart(max(time.Now().UnixMilli(), s.ProcessEpoch()+1))
			_, err = fmt.Fprintf(out, "lanceworker-stub simulates a restart; process epoch %d\n", s.ProcessEpoch())
		}
	}
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	if stopErr := s.Stop(stopping); stopErr != nil {
		return stopErr
	}
	return err
}
