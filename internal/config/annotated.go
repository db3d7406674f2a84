package config

import (
	"fmt"
	"strings"
)

// width is where comments are broken.
const width = 100

// Annotated is a configuration file that says what holds without one: every key with its meaning and
// default, commented out.
func Annotated() string {
	var out strings.Builder
	out.WriteString(`# The configuration of one lancemaster node. Every key stands here with its default, commented out.
#
# A key a.b is also the environment variable LANCEMASTER_A_B and the flag --a-b of "lancemaster serve",
# which win over this file in that order. A key that is not known is an error. Check a change with
#   lancemaster config check --config FILE
# and look at what holds with "lancemaster config show". Keys marked "reload" change in a running node
# on SIGHUP; all others count from the next start. Secrets are given by reference, file:/absolute/path
# or env:NAME, and never here.
#
# What all masters must agree on is not here but in the settings: lancemaster settings list.
`)
	section := ""
	for _, f := range Flags() {
		parent, key, nested := strings.Cut(f.Key, ".")
		indent := ""
		out.WriteString("\n")
		if nested {
			if parent != section {
				fmt.Fprintf(&out, "# %s:\n", parent)
			}
			section, indent = parent, "  "
		} else {
			key, section = f.Key, ""
		}
		about := f.Usage + "."
		if f.Reload {
			about += " (reload)"
		}
		for _, line := range wrap(about, width-3) {
			fmt.Fprintf(&out, "## %s\n", line)
		}
		value := f.Default
		if value == "" {
			value = `""`
		}
		fmt.Fprintf(&out, "# %s%s: %s\n", indent, key, value)
	}
	return out.String()
}

// Reference is the page of the documentation that lists every key.
func Reference() string {
	var out strings.Builder
	out.WriteString(`# Configuration

A node's own configuration: where it listens, where its data is, who its peers are. It comes from built-in
defaults, a YAML file (` + "`--config`" + ` or ` + "`LANCEMASTER_CONFIG`" + `), the environment and flags, each over the one before.
What all masters must agree on is in the replicated settings instead: ` + "`lancemaster settings list`" + `.

- ` + "`deploy/config/lancemaster.yaml`" + ` is a file with every key, its meaning and its default.
- ` + "`lancemaster config check --config FILE`" + ` runs the validator of start and reload; it names every fault with its
  key and source, all in one go. A key that is not known is refused, with the nearest one that is. It reads the files
  and secrets that the configuration names as a start would, so run it on the node's machine as the node's user.
- ` + "`lancemaster config show`" + ` prints what holds, each value with where it came from.
- SIGHUP reads everything again. Keys marked "reload" change at once, and so do the files that the TLS keys name;
  of the others the log says that they count from the next start. A faulty configuration changes nothing, nor does one
  with another ` + "`node_id`" + `, or with the data directory of another node, which a start would refuse: the log
  says why, and ` + "`lancemaster_config_last_reload_successful`" + ` is 0 until a reload succeeds: where only a file was
  at fault, within a minute of its correction. Files are read beside the node's work: one on a file system that does not
  answer is reported after ten seconds, and holds up no stop.
- The configuration is a regular file of at most 1 MiB, and so are the files that it names.
- Secrets are given by reference (` + "`file:/absolute/path` or `env:NAME`" + `), never as values.

| key | default | reload | meaning |
|---|---|---|---|
`)
	for _, f := range Flags() {
		value, reload := "", ""
		if f.Default != "" {
			value = "`" + f.Default + "`"
		}
		if f.Reload {
			reload = "yes"
		}
		fmt.Fprintf(&out, "| `%s` | %s | %s | %s |\n", f.Key, value, reload, strings.ReplaceAll(f.Usage, "|", "\\|"))
	}
	out.WriteString(`
A key ` + "`a.b_c`" + ` is the variable ` + "`LANCEMASTER_A_B_C`" + ` and the flag ` + "`--a-b-c`" + `. Durations are written like ` + "`10s`, `1m`" + ` or ` + "`6h`" + `;
sizes and counts are whole numbers. Members may be written as a mapping in the file:

` + "```yaml" + `
cluster:
  members:
    m1: m1.example.com:9010
    m2: m2.example.com:9010
    m3: m3.example.com:9010
` + "```" + `
`)
	return out.String()
}

// wrap breaks text into lines of at most so many bytes, at spaces.
func wrap(text string, limit int) (lines []string) {
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len(line)+1+len(word) > limit {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}
