package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lancemaster/lancemaster/internal/app"
	"github.com/lancemaster/lancemaster/internal/config"
)

func (a *cli) configCmd() *cobra.Command {
	return a.group(&cobra.Command{
		Use:   "config",
		Short: "Check and show a node's own configuration",
		Long: `Check and show a node's own configuration, as "serve" would read it here: defaults, the file, the
environment and flags. No master is called. What all masters share is in the settings instead.

` + exitPlain,
		Example: `  lancemaster config check --config /etc/lancemaster/lancemaster.yaml
  lancemaster config show`,
	}, a.configCheckCmd(), a.configShowCmd())
}

// configuration adds the flags that say where the configuration comes from, and returns what reads it.
func (a *cli) configuration(cmd *cobra.Command) func() (config.Config, error) {
	var file string
	values := map[string]*string{}
	f := cmd.Flags()
	f.StringVar(&file, "config", a.getenv("LANCEMASTER_CONFIG", ""), "YAML file; LANCEMASTER_CONFIG gives the default")
	for _, flag := range config.Flags() {
		values[flag.Name] = f.String(flag.Name, flag.Default, strings.ReplaceAll(flag.Usage, "`", `"`))
	}
	return func() (config.Config, error) {
		overrides := map[string]string{}
		for _, flag := range config.Flags() {
			if cmd.Flags().Changed(flag.Name) {
				overrides[flag.Key] = *values[flag.Name]
			}
		}
		return config.Load(file, a.env, overrides)
	}
}

func (a *cli) configCheckCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check a configuration with the validator of start and reload",
		Long: `Check a configuration with the very validator that a start and a reload use. Every fault is told, each
with its key and where the value came from, and also when nothing is configured at all. Of a valid
configuration the files and secrets that it names are read too, as a start would: the certificate, its key
and the CAs, the tokens file, backend.token, and whose the data directory is; what a start would warn of in
them is said on stderr. So run it on the node's machine, as the node's user and with its environment. Nothing
is written and nobody is called.

` + exitPlain,
		Example: `  lancemaster config check --config /etc/lancemaster/lancemaster.yaml`,
	}
	var load func() (config.Config, error)
	cmd = a.leaf(cmd, func(ctx context.Context, _ *cobra.Command, _ []string) error {
		cfg, err := load()
		if err != nil {
			return err
		}
		if err := app.CheckFiles(ctx, cfg, slog.New(warnings{a.Err})); err != nil {
			return fmt.Errorf("the configuration itself is valid, but what it names cannot be used here: %w", err)
		}
		if cfg.File != "" && !cfg.Sets(config.SourceFile) {
			fmt.Fprintf(a.Out, "%s sets no key\n", clean(cfg.File))
		}
		if !cfg.Sets(config.SourceFile, config.SourceEnvironment, config.SourceFlag) {
			fmt.Fprintln(a.Out, "nothing is configured: the defaults hold, which are valid")
			return nil
		}
		fmt.Fprintln(a.Out, "the configuration is valid")
		return nil
	})
	load = a.configuration(cmd)
	return cmd
}

// warnings shows what a part of the daemon would warn of in its log.
type warnings struct{ out io.Writer }

func (warnings) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelWarn }
func (w warnings) WithAttrs([]slog.Attr) slog.Handler         { return w }
func (w warnings) WithGroup(string) slog.Handler              { return w }

func (w warnings) Handle(_ context.Context, r slog.Record) error {
	var about []string
	for a := range r.Attrs {
		about = append(about, fmt.Sprintf("%s: %v", a.Key, a.Value))
	}
	text := r.Message
	if len(about) > 0 {
		text += " (" + strings.Join(about, ", ") + ")"
	}
	_, err := fmt.Fprintf(w.out, "warning: %s\n", clean(text))
	return err
}

// configEntry is one key of config show.
type configEntry struct {
	Key    string `json:"key" yaml:"key"`
	Value  string `json:"value" yaml:"value"`
	Source string `json:"source" yaml:"source"`
	Reload bool   `json:"reload" yaml:"reload"`
}

func (a *cli) configShowCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Show the effective configuration and where each value comes from",
		Long: `Show the effective configuration as a file that would give the same, each value with where it comes
from: default, file, environment or flag. "reload" marks what SIGHUP changes in a running node. Secrets are
given by reference (file:PATH or env:NAME) and are not read.

` + exitPlain,
		Example: `  lancemaster config show --config /etc/lancemaster/lancemaster.yaml
  lancemaster config show -o json`,
	}
	var load func() (config.Config, error)
	cmd = a.leaf(cmd, func(context.Context, *cobra.Command, []string) error {
		cfg, err := load()
		if err != nil {
			return err
		}
		var entries []configEntry
		for _, f := range config.Flags() {
			entries = append(entries, configEntry{f.Key, cfg.Values[f.Key], string(cfg.Sources[f.Key]), f.Reload})
		}
		return a.print(entries, func(out *page) { out.WriteString(annotated(entries)) })
	})
	load = a.configuration(cmd)
	return cmd
}

// annotated writes keys as the file that gives them, each line with its source.
func annotated(entries []configEntry) string {
	var out strings.Builder
	section := ""
	for _, e := range entries {
		parent, key, nested := strings.Cut(e.Key, ".")
		indent := ""
		if nested {
			if parent != section {
				fmt.Fprintf(&out, "%s:\n", parent)
			}
			section, indent = parent, "  "
		} else {
			key, section = e.Key, ""
		}
		note := e.Source
		if e.Reload {
			note += ", reload"
		}
		fmt.Fprintf(&out, "%-50s # %s\n", indent+key+": "+scalar(e.Value), note)
	}
	return out.String()
}

// scalar writes a value so that YAML reads it back as that text.
func scalar(value string) string {
	if value == "" || strings.ContainsAny(value, "#'\"\\{}[]&*!|>%@`,=") || strings.Contains(value, ": ") || strings.TrimSpace(value) != value {
		return fmt.Sprintf("%q", value)
	}
	return clean(value)
}
