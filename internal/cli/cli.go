package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lancemaster/lancemaster/internal/client"
	"github.com/lancemaster/lancemaster/internal/config"
)

// Streams are what a command reads and writes.
type Streams struct {
	In  io.Reader
	Out io.Writer
	Err io.Writer
}

// Run runs one command line and returns the exit status. The arguments are without
// the program's name; env is as from os.Environ.
func Run(ctx context.Context, args, env []string, s Streams) int {
	a := &cli{Streams: s, env: env}
	root := a.root()
	root.SetArgs(append([]string{}, args...)) // nil would mean those of the process
	cmd, err := root.ExecuteContextC(ctx)
	if err != nil && !a.started {
		var u *usageError
		if !errors.As(err, &u) {
			err = &usageError{message: err.Error(), command: cmd.CommandPath()}
		}
	}
	return a.report(cmd, err)
}

// cli is one run of the program.
type cli struct {
	Streams
	env     []string
	started bool // the arguments were fine, the command itself has begun

	addr        string
	output      string
	color       string
	columns     []string // of the table to print; nil: those that it has
	noHeaders   bool
	tables      map[*cobra.Command][]column
	names       map[*cobra.Command]bool // that -o name means something to
	clientName  string
	callTimeout time.Duration
	access      access
	tokenWarned bool // that others can read the file of the token

	stale      bool          // of this command: reads are answered from one master's own state
	answeredBy string        // whose state that was, as told last
	typed      *bufio.Reader // what is typed in, once somebody was asked
}

const rootLong = `lancemaster admits, dispatches and tracks index jobs on Lance datasets.

"serve" runs a master, "dev" runs one on this machine to try things on. All other commands call a
master's admin service and find the leader from any member.

Output goes to stdout: as a table for people, which fits the terminal and on it shows states in colour;
with -o wide with more columns; with -o json or yaml in one form for programs; with -o name only as names
or ids, one a line, for scripts. --columns and --no-headers shape a table. All times are UTC, durations are
written like 90s, 15m or 6h. A failure is told on stderr as "lancemaster: CODE: message", followed where
something can be done by "next: what to do".

Exit status: 0 done, 1 failed, 2 wrong usage. Commands that wait for a job also use
3 not committed, 4 unknown, 5 timed out; their help says so.`

func (a *cli) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "lancemaster",
		Short: "Index jobs on Lance datasets, one at a time per name, with a known outcome",
		Long:  rootLong,
		Example: `  lancemaster dev
  lancemaster job list --unresolved
  lancemaster job wait 7 --timeout 30m`,
		SilenceErrors:              true,
		SilenceUsage:               true,
		SuggestionsMinimumDistance: 2,
		Args:                       cobra.ArbitraryArgs,
		CompletionOptions:          cobra.CompletionOptions{DisableDefaultCmd: true},
		PersistentPreRunE:          func(cmd *cobra.Command, _ []string) error { return a.checkGlobals(cmd) },
	}
	root.SetIn(a.In)
	root.SetOut(a.Out)
	root.SetErr(a.Err)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return &usageError{message: err.Error(), command: cmd.CommandPath()}
	})
	f := root.PersistentFlags()
	f.StringVar(&a.addr, "addr", a.getenv("LANCEMASTER_ADDR", "127.0.0.1:9021"), "host:port[,host:port...] of admin services; LANCEMASTER_ADDR gives the default")
	f.StringVarP(&a.output, "output", "o", "table", "output: table, wide (more columns), json, yaml or name (names only, one a line)")
	f.StringVar(&a.color, "color", "auto", "colours: auto, always or never; auto: on a terminal, unless NO_COLOR is set or TERM is dumb")
	f.StringVar(&a.clientName, "client-name", a.getenv("LANCEMASTER_CLIENT_NAME", a.getenv("USER", "lancemaster")), "your name for the history; LANCEMASTER_CLIENT_NAME gives the default, else USER")
	f.DurationVar(&a.callTimeout, "call-timeout", 30*time.Second, "how long one master may take to answer one call")
	a.accessFlags(f)
	a.complete(root, "output", forms...)
	a.complete(root, "color", "auto", "always", "never")
	root.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		return unknownCommand(cmd, args[0])
	}
	root.AddCommand(a.commands()...)
	root.SetHelpCommand(a.helpCmd())
	root.InitDefaultHelpCmd()
	return root
}

// helpCmd is cobra's own, but for a topic that does not exist being an error.
func (a *cli) helpCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]...",
		Short: "Show the help of a command",
		Long:  "Show the help of a command, as --help does.\n\n" + exitPlain,
		RunE: func(cmd *cobra.Command, args []string) error {
			found, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return unknownCommand(found, args[len(args)-max(len(rest), 1)])
			}
			return found.Help()
		},
	}
}

// group is a command that only has subcommands.
func (a *cli) group(cmd *cobra.Command, subcommands ...*cobra.Command) *cobra.Command {
	cmd.Args = cobra.ArbitraryArgs
	cmd.SuggestionsMinimumDistance = 2
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return unknownCommand(cmd, args[0])
		}
		var names []string
		for _, c := range cmd.Commands() {
			names = append(names, c.Name())
		}
		return &usageError{message: fmt.Sprintf("%s needs one of: %s", cmd.CommandPath(), strings.Join(names, ", ")), command: cmd.CommandPath()}
	}
	cmd.AddCommand(subcommands...)
	return cmd
}

// leaf is a command that does something. The arguments are named in the usage line
// after the command's name; a name in brackets may be left out, one with dots may be
// repeated.
func (a *cli) leaf(cmd *cobra.Command, run func(ctx context.Context, cmd *cobra.Command, args []string) error) *cobra.Command {
	cmd.Args = namedArgs(strings.Fields(cmd.Use)[1:])
	cmd.DisableFlagsInUseLine = false
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		a.started = true
		err := run(cmd.Context(), cmd, args)
		var u *usageError
		if errors.As(err, &u) && u.command == "" {
			u.command = cmd.CommandPath()
		}
		return err
	}
	return cmd
}

func namedArgs(names []string) cobra.PositionalArgs {
	least, most := 0, len(names)
	for _, n := range names {
		if !strings.HasPrefix(n, "[") {
			least++
		}
		if strings.Contains(n, "...") {
			most = -1
		}
	}
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			return usagef("%s is missing", names[len(args)]).of(cmd)
		case most >= 0 && len(args) > most:
			return usagef("unexpected argument %q", args[most]).of(cmd)
		}
		return nil
	}
}

func unknownCommand(cmd *cobra.Command, name string) error {
	u := usagef("unknown command %q for %s", name, cmd.CommandPath()).of(cmd)
	if s := cmd.SuggestionsFor(name); len(s) > 0 {
		u.message += fmt.Sprintf("; did you mean %s?", strings.Join(s, " or "))
	}
	return u
}

// forms are what -o may be.
var forms = []string{"table", "wide", "json", "yaml", "name"}

func (a *cli) checkGlobals(cmd *cobra.Command) error {
	if !slices.Contains(forms, a.output) {
		return usagef("-o %q is not table, wide, json, yaml or name", a.output).of(cmd)
	}
	if !slices.Contains([]string{"auto", "always", "never"}, a.color) {
		return usagef("--color %q is not auto, always or never", a.color).of(cmd)
	}
	if a.callTimeout <= 0 {
		return usagef("--call-timeout %s is not positive", a.callTimeout).of(cmd)
	}
	// A mistyped LANCEMASTER_ADDR would leave the default in force, which may be another cluster.
	if name, meant := config.Mistyped(a.env, variables); name != "" {
		return usagef("the variable %s is not known; did you mean %s? Rename or unset it", name, meant).of(cmd)
	}
	return a.checkLook(cmd)
}

// variables are those of the environment that commands read, beside those of the configuration's keys.
var variables = []string{
	"LANCEMASTER_ADDR", "LANCEMASTER_CLIENT_NAME", "LANCEMASTER_CONFIG", "LANCEMASTER_TLS_CA", "LANCEMASTER_TLS_CERT", "LANCEMASTER_TLS_KEY",
	"LANCEMASTER_TLS_SERVER_NAME", "LANCEMASTER_TOKEN_FILE",
}

func (a *cli) getenv(name, otherwise string) string {
	if v := getenv(a.env, name); v != "" {
		return v
	}
	return otherwise
}

func getenv(env []string, name string) string {
	for _, kv := range env {
		if v, ok := strings.CutPrefix(kv, name+"="); ok && v != "" {
			return v
		}
	}
	return ""
}

// complete lets the shell complete a flag's words.
func (a *cli) complete(cmd *cobra.Command, flag string, words ...string) {
	if err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // the flag is not there: a mistake in this package that any run shows
	}
}

// connect makes a client for the addresses given; the caller closes it.
func (a *cli) connect() (*client.Client, error) {
	var stale func(client.Staleness)
	if a.stale {
		stale = a.aged
	}
	return a.connectFor(stale)
}

// connectFor makes a client for the addresses given; with stale, one whose reads are answered by the
// first master that answers.
func (a *cli) connectFor(stale func(client.Staleness)) (*client.Client, error) {
	addresses, err := client.ParseAddresses(a.addr)
	if err != nil {
		return nil, usagef("%s: %v", a.access.source("addr"), err)
	}
	cfg := client.Config{Addresses: addresses, Name: a.clientName, Version: config.BuildInfo().Version, CallTimeout: a.callTimeout, Stale: stale}
	if cfg.Token, err = a.access.token(); err != nil {
		return nil, err
	}
	a.warnOfToken()
	if cfg.TLS, err = a.access.tls(); err != nil {
		return nil, err
	}
	return client.New(cfg)
}

// withClient runs f with a client.
func (a *cli) withClient(f func(*client.Client) error) error {
	c, err := a.connect()
	if err != nil {
		return err
	}
	defer c.Close()
	return f(c)
}
