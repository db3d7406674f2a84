// Package clidocs makes reference pages and man pages from a program's commands, so that they say what
// --help says. Cobra has a generator of its own; its man pages come through two more modules, and its
// pages, one a command, leave the reader without an overview. Everything here is a pure function of the
// commands, without a date or a name of a machine in it, so that a build can be repeated.
package clidocs

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Notice stands in each page.
const Notice = "<!-- Made from the commands by make docs-generate; change those. -->\n\n"

// Overview is the page of a whole program: its help, its global flags, and its commands with links to
// the pages of the topmost ones, which are named NAME.md.
func Overview(root *cobra.Command) string {
	var out strings.Builder
	fmt.Fprintf(&out, "# %s: command reference\n\n%s", root.Name(), Notice)
	describe(&out, root)
	if flags := visible(root.PersistentFlags()); flags.HasFlags() {
		fmt.Fprintf(&out, "## Flags of every command\n\n```text\n%s```\n\n", flags.FlagUsages())
	}
	out.WriteString("## Commands\n\n| command | |\n|---|---|\n")
	for _, top := range children(root) {
		walk(top, func(cmd *cobra.Command) {
			if !cmd.HasAvailableSubCommands() {
				fmt.Fprintf(&out, "| [`%s`](%s.md#%s) | %s |\n", cmd.CommandPath(), top.Name(), anchor(cmd), escapeCell(cmd.Short))
			}
		})
	}
	return out.String()
}

// Page is the page of a command and all below it.
func Page(top *cobra.Command) string {
	var out strings.Builder
	fmt.Fprintf(&out, "# %s\n\n%s", top.CommandPath(), Notice)
	walk(top, func(cmd *cobra.Command) {
		if cmd != top || !cmd.HasAvailableSubCommands() {
			fmt.Fprintf(&out, "## %s\n\n", cmd.CommandPath())
		}
		describe(&out, cmd)
		if cmd.Runnable() && !cmd.HasAvailableSubCommands() {
			fmt.Fprintf(&out, "```text\n%s\n```\n\n", cmd.UseLine())
		}
		if flags := visible(cmd.NonInheritedFlags()); flags.HasFlags() && !cmd.HasAvailableSubCommands() {
			fmt.Fprintf(&out, "```text\n%s```\n\n", flags.FlagUsages())
		}
		if cmd.HasExample() {
			fmt.Fprintf(&out, "<!-- example -->\n```sh\n%s\n```\n\n", unindent(cmd.Example))
		}
	})
	return strings.TrimSuffix(out.String(), "\n")
}

// describe writes a command's description: paragraphs as they are, lists and tables literally.
func describe(out *strings.Builder, cmd *cobra.Command) {
	text := cmd.Long
	if text == "" {
		text = cmd.Short + "."
	}
	for _, p := range paragraphs(text) {
		if p.literal {
			fmt.Fprintf(out, "```text\n%s\n```\n\n", p.text)
			continue
		}
		out.WriteString(escapeText(p.text) + "\n\n")
	}
}

type paragraph struct {
	text    string
	literal bool // has lines that are indented: to be shown as they are
}

func paragraphs(text string) (out []paragraph) {
	for p := range strings.SplitSeq(strings.Trim(text, "\n"), "\n\n") {
		if p = strings.Trim(p, "\n"); p != "" {
			out = append(out, paragraph{text: p, literal: strings.HasPrefix(p, " ") || strings.Contains(p, "\n ")})
		}
	}
	return out
}

// children are the commands right below one that people are to know.
func children(cmd *cobra.Command) (out []*cobra.Command) {
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() && c.Name() != "help" {
			out = append(out, c)
		}
	}
	return out
}

// walk visits a command and all below it, in the order of help.
func walk(cmd *cobra.Command, visit func(*cobra.Command)) {
	visit(cmd)
	for _, c := range children(cmd) {
		walk(c, visit)
	}
}

// visible are the flags that help shows, but help itself.
func visible(flags *pflag.FlagSet) *pflag.FlagSet {
	out := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && f.Name != "help" && f.Name != "version" {
			out.AddFlag(f)
		}
	})
	return out
}

func anchor(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

func escapeCell(text string) string { return strings.ReplaceAll(escapeText(text), "|", `\|`) }

func escapeText(text string) string {
	return strings.NewReplacer("<", "&lt;", "*", `\*`, "_", `\_`).Replace(text)
}

// unindent takes the indentation of the first line from all.
func unindent(text string) string {
	lines := strings.Split(strings.Trim(text, "\n"), "\n")
	indent := lines[0][:len(lines[0])-len(strings.TrimLeft(lines[0], " "))]
	for i := range lines {
		lines[i] = strings.TrimPrefix(lines[i], indent)
	}
	return strings.Join(lines, "\n")
}
