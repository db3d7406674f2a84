package cli

import "github.com/spf13/cobra"

// Command is the whole command line, for what is made from it: reference pages, man pages, completions.
// It is not to be run; its defaults are those of an empty environment.
func Command() *cobra.Command { return (&cli{}).root() }
