// Command lanceworker-stub is a backend that accepts no work; see package stubcli.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/lancemaster/lancemaster/internal/stubcli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := stubcli.Command(os.Stdout, os.Stderr).ExecuteContext(ctx); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "lanceworker-stub:", err)
		stop()
		os.Exit(1)
	}
}
