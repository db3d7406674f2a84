// Package stubcli is the command line of lanceworker-stub, a backend that accepts no work: it answers every
// dispatch with NOT_IMPLEMENTED_ERROR, so that a job's whole life can be seen without building an index. For
// tests and demonstrations it can be told to simulate what backends do; it says so wherever it speaks.
package stubcli

import (
	"context"
	"crypto/tls"
	"errors"
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
	"github.com/lancemaster/lancemaster/internal/tlsconf"
)

// stopTimeout bounds the stop after a signal.
const stopTimeout = 5 * time.Second

// Command is the program's only command.
func Command(out, errOut io.Writer) *cobra.Command {
	var listen, heartbeat, format string
	var rules []string
	var files tlsconf.Files
	cmd := &cobra.Command{
		Use:   "lanceworker-stub",
		Short: "A stand-in backend that accepts no work",
		Long: "A stand-in backend that accepts no work: it answers heartbeats, and every dispatch with\n" +
			"NOT_IMPLEMENTED_ERROR, so that jobs end NOT_COMMITTED. It stores nothing and stops on SIGTERM.\n\n" +
			"With --simulate it pretends, for tests and demonstrations: it still builds nothing, and what it reports\n" +
			"is SIMULATED. Its first line of output, its log, the version it tells in heartbeats and the messages of\n" +
			"its answers and reports all say so. Register it with --label simulated=true, and never beside a backend\n" +
			"that works. Reports go out as real backends send them: again after a failed call only, three times in all.\n" +
			"SIGHUP makes it look restarted: a new process epoch, and nothing is left of its jobs.\n\n" +
			"With --tls-cert and --tls-key it speaks TLS only, on both ports and to report, as masters with backend.tls\n" +
			"and report.tls do. With --tls-ca it takes calls only from a certificate of role master (backend.tls: mutual),\n" +
			"and reports only to one; without, from anybody, and the machine's own CAs vouch for where it reports. Its\n" +
			"certificate has the role backend and the host under which it is registered: lancemaster tls cert makes one.\n" +
			"The files are read again when they change.\n\n" + stub.RulesHelp,
		Example: "  lanceworker-stub\n" +
			"  lanceworker-stub --listen 0.0.0.0:9060 --heartbeat-listen 0.0.0.0:9050 --tls-cert be-1.crt --tls-key be-1.key --tls-ca ca.crt\n" +
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
			done, err := secured(&cfg, files)
			if err != nil {
				return err
			}
			defer done()
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
	cmd.Flags().StringVar(&files.Cert, "tls-cert", "", "speak TLS; PEM file of its certificate, of role backend")
	cmd.Flags().StringVar(&files.Key, "tls-key", "", "PEM file of the certificate's key, mode 0600")
	cmd.Flags().StringVar(&files.CA, "tls-ca", "", "PEM file of the CAs that masters are known by")
	cmd.Flags().StringVar(&format, "log-format", "text", "text or json, on standard error")
	cmd.Flags().StringArrayVar(&rules, "simulate", nil, "SIMULATE an outcome: a `RULE` as above; may be repeated, the first that matches decides")
	return cmd
}

// secured makes a stub speak TLS where it has a certificate. done ends the watch over the files.
func secured(cfg *stub.Config, files tlsconf.Files) (done func(), err error) {
	switch {
	case files == tlsconf.Files{}:
		return func() {}, nil
	case files.Cert == "" || files.Key == "":
		return nil, errors.New("--tls-cert and --tls-key go together, and --tls-ca needs both: who speaks TLS here needs a certificate")
	}
	source, err := tlsconf.Open(tlsconf.Config{Uses: []tlsconf.Use{tlsconf.UseBackend, tlsconf.UseReport}, Files: files, Logger: cfg.Logger})
	if err != nil {
		return nil, fmt.Errorf("--tls-cert, --tls-key and --tls-ca: %w", err)
	}
	var options tlsconf.ServerOptions
	var master tlsconf.Expect
	if files.CA != "" {
		options = tlsconf.ServerOptions{Clients: tlsconf.ClientsRequired, Role: tlsconf.RoleMaster}
		master.Role = tlsconf.RoleMaster
	}
	done = func() { _ = source.Close() }
	if cfg.TLS, err = source.Server(options); err != nil {
		done()
		return nil, err
	}
	cfg.ReportTLS = func() *tls.Config { return source.Client(master) }
	return done, nil
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
