package clidocs

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Man returns the man pages of a program, by file name: one for each command that help shows. The date,
// which may be empty, and the version stand in their headers and footers.
func Man(root *cobra.Command, date, version string) map[string]string {
	out := map[string]string{}
	walk(root, func(cmd *cobra.Command) { out[manName(cmd)+".1"] = manPage(cmd, date, version) })
	return out
}

func manName(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

func manPage(cmd *cobra.Command, date, version string) string {
	var out strings.Builder
	root := cmd.Root().Name()
	fmt.Fprintf(&out, ".TH %q 1 %q %q %q\n.nh\n.ad l\n", strings.ToUpper(manName(cmd)), date, root+" "+version, root+" manual")
	fmt.Fprintf(&out, ".SH NAME\n%s \\- %s\n", roff(manName(cmd)), roff(cmd.Short))
	synopsis := cmd.UseLine()
	if cmd.HasAvailableSubCommands() {
		synopsis = cmd.CommandPath() + " COMMAND [flags]"
	}
	fmt.Fprintf(&out, ".SH SYNOPSIS\n.B %s\n", roff(synopsis))
	if cmd.Long != "" {
		out.WriteString(".SH DESCRIPTION\n")
		for _, p := range paragraphs(cmd.Long) {
			if p.literal {
				fmt.Fprintf(&out, ".PP\n.nf\n%s\n.fi\n", roff(p.text))
				continue
			}
			fmt.Fprintf(&out, ".PP\n%s\n", roff(p.text))
		}
	}
	if below := children(cmd); len(below) > 0 {
		out.WriteString(".SH COMMANDS\n")
		for _, c := range below {
			fmt.Fprintf(&out, ".TP\n.B %s\n%s\n", roff(c.Name()), roff(c.Short))
		}
	}
	manFlags(&out, "OPTIONS", visible(cmd.NonInheritedFlags()))
	manFlags(&out, "OPTIONS OF EVERY COMMAND", visible(cmd.InheritedFlags()))
	if cmd.HasExample() {
		fmt.Fprintf(&out, ".SH EXAMPLES\n.nf\n%s\n.fi\n", roff(unindent(cmd.Example)))
	}
	also := children(cmd)
	if cmd.HasParent() {
		also = append([]*cobra.Command{cmd.Parent()}, also...)
	}
	if len(also) > 0 {
		names := make([]string, 0, len(also))
		for _, c := range also {
			names = append(names, roff(manName(c))+"(1)")
		}
		fmt.Fprintf(&out, ".SH SEE ALSO\n%s\n", strings.Join(names, ", "))
	}
	return out.String()
}

func manFlags(out *strings.Builder, title string, flags *pflag.FlagSet) {
	if !flags.HasFlags() {
		return
	}
	fmt.Fprintf(out, ".SH %s\n", title)
	flags.VisitAll(func(f *pflag.Flag) {
		value, usage := pflag.UnquoteUsage(f)
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		if value != "" {
			name += " " + value
		}
		if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "0" && f.DefValue != "[]" {
			usage += " (default " + f.DefValue + ")"
		}
		fmt.Fprintf(out, ".TP\n.B %s\n%s\n", roff(name), roff(usage))
	})
}

// roff escapes text: backslashes, dashes, and the signs that make a line a request.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "`", `\(ga`).Replace(text)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}
