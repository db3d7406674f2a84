// lanceworker-stub is a backend that accepts no work: it answers every dispatch with
// NOT_IMPLEMENTED_ERROR, so that a job's whole life can be seen without building an index.
package main

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

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command(os.Stdout, os.Stderr).ExecuteContext(ctx); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "lanceworker-stub:", err)
		stop()
		os.Exit(1)
	}
}

func command(out, errOut io.Writer) *cobra.Command {
	var listen, heartbeat, format string
	cmd := &cobra.Command{
		Use:   "lanceworker-stub",
		Short: "A stand-in backend that accepts no work",
		Long: "A stand-in backend that accepts no work: it answers heartbeats, and every dispatch with\n" +
			"NOT_IMPLEMENTED_ERROR, so that jobs end NOT_COMMITTED. It stores nothing and stops on SIGTERM.",
		Version:       config.BuildInfo().Version,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			logger, err := newLogger(errOut, format)
			if err != nil {
				return err
			}
			return run(cmd.Context(), out, stub.Config{
				Listen: listen, HeartbeatListen: heartbeat, Version: "lanceworker-stub " + config.BuildInfo().Version, Logger: logger,
			})
		},
	}
	cmd.SetOut(out)
	cmd.SetErr(errOut)
	cmd.Flags().StringVar(&listen, "listen", stub.DefaultListen, "where dispatches are taken, host:port (port 0 picks one)")
	cmd.Flags().StringVar(&heartbeat, "heartbeat-listen", stub.DefaultHeartbeatListen, "where heartbeats are answered, host:port (port 0 picks one)")
	cmd.Flags().StringVar(&format, "log-format", "text", "text or json, on standard error")
	return cmd
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

// run serves until ctx ends.
func run(ctx context.Context, out io.Writer, cfg stub.Config) error {
	s, err := stub.New(cfg)
	if err != nil {
		return err
	}
	if err := s.Start(ctx); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "lanceworker-stub accepts no work; backend %s heartbeat %s\n", s.Addr(), s.HeartbeatAddr())
	if err == nil {
		<-ctx.Done()
	}
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	if stopErr := s.Stop(stopping); stopErr != nil {
		return stopErr
	}
	return err
}
