// Command lancemaster runs masters and calls them; see package cli.
package main

import (
	"context"
	"os"

	"github.com/lancemaster/lancemaster/internal/cli"
)

func main() {
	os.Exit(cli.Run(context.Background(), os.Args[1:], os.Environ(), cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}))
}
