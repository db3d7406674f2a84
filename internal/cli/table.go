package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// column is a column of a table.
type column struct {
	name string
	kind cellKind
	wide bool // shown with -o wide, and where it is asked for by name
}

type cellKind int

const (
	plainCell cellKind = iota // shown whole
	textCell                  // may be cut where the terminal is too narrow
	stateCell                 // coloured
)

func plain(names ...string) []column {
	var out []column
	for _, n := range names {
		out = append(out, column{name: n})
	}
	return out
}

// flagName is how a column is named on the command line.
func (c column) flagName() string { return strings.ToLower(strings.ReplaceAll(c.name, " ", "_")) }

// tabled declares that a command prints a table of these columns.
func (a *cli) tabled(cmd *cobra.Command, columns []column) *cobra.Command {
	if a.tables == nil {
		a.tables = map[*cobra.Command][]column{}
	}
	a.tables[cmd] = columns
	names := columnNames(columns)
	f := cmd.Flags()
	f.StringSliceVar(&a.columns, "columns", nil, "print these columns of the table, in this order: "+strings.Join(names, ","))
	f.BoolVar(&a.noHeaders, "no-headers", false, "print the rows of the table and nothing else")
	a.complete(cmd, "columns", names...)
	return cmd
}

// listing declares that a command prints a table of things that have names, in the first column.
func (a *cli) listing(cmd *cobra.Command, columns []column) *cobra.Command {
	return a.nameable(a.tabled(cmd, columns))
}

// nameable declares that -o name means something to a command.
func (a *cli) nameable(cmd *cobra.Command) *cobra.Command {
	if a.names == nil {
		a.names = map[*cobra.Command]bool{}
	}
	a.names[cmd] = true
	return cmd
}

func columnNames(columns []column) []string {
	var out []string
	for _, c := range columns {
		out = append(out, c.flagName())
	}
	return out
}

// checkLook refuses what a command cannot print, before it does anything.
func (a *cli) checkLook(cmd *cobra.Command) error {
	if a.output == "name" && !a.names[cmd] {
		return usagef("-o name: %s prints nothing that has a name; use table, json or yaml", cmd.CommandPath()).of(cmd)
	}
	if !cmd.Flags().Changed("columns") {
		if a.noHeaders && (a.output == "json" || a.output == "yaml") {
			return usagef("--no-headers is about tables; leave it out with -o %s", a.output).of(cmd)
		}
		return nil
	}
	if a.output != "table" && a.output != "wide" {
		return usagef("--columns is about tables; leave it out with -o %s", a.output).of(cmd)
	}
	names := columnNames(a.tables[cmd])
	for i, n := range a.columns {
		a.columns[i] = strings.ReplaceAll(strings.ToLower(strings.TrimSpace(n)), "-", "_")
		if !slices.Contains(names, a.columns[i]) {
			return usagef("--columns: there is no column %q; there are %s", n, strings.Join(names, ", ")).of(cmd)
		}
	}
	if len(a.columns) == 0 {
		return usagef("--columns is empty; there are %s", strings.Join(names, ", ")).of(cmd)
	}
	return nil
}

// table aligns rows under a header.
type table struct {
	out     *page
	columns []column
	rows    [][]string
	cut     bool // a text was, to fit the terminal
}

func newTable(out *page, columns []column) *table { return &table{out: out, columns: columns} }

// row adds a row, which has a cell for each column, the wide ones too; an empty cell is shown as a dash.
func (t *table) row(cells ...string) {
	for i, c := range cells {
		if cells[i] = clean(c); c == "" {
			cells[i] = "-"
		}
	}
	t.rows = append(t.rows, cells)
}

// end writes the table.
func (t *table) end() {
	for _, r := range t.rows {
		t.out.named(r[0])
	}
	shown := t.shown()
	widths := t.widths(shown)
	if t.out.width > 0 {
		t.fit(shown, widths)
	}
	if !t.out.noHeaders {
		header := make([]string, len(t.columns))
		for i, c := range t.columns {
			header[i] = c.name
		}
		t.line(shown, widths, header, false)
	}
	for _, r := range t.rows {
		t.line(shown, widths, r, t.out.colours)
	}
}

// shown are the columns to show, in their order.
func (t *table) shown() []int {
	var out []int
	if t.out.columns != nil {
		for _, n := range t.out.columns {
			out = append(out, slices.IndexFunc(t.columns, func(c column) bool { return c.flagName() == n }))
		}
		return out
	}
	for i, c := range t.columns {
		if !c.wide || t.out.wide {
			out = append(out, i)
		}
	}
	return out
}

func (t *table) widths(shown []int) []int {
	out := make([]int, len(shown))
	for i, c := range shown {
		if !t.out.noHeaders {
			out[i] = cellsOf(t.columns[c].name)
		}
		for _, r := range t.rows {
			out[i] = max(out[i], cellsOf(r[c]))
		}
	}
	return out
}

const (
	gap       = 2 // blanks between columns
	leastText = 8 // columns of a terminal that a text keeps
)

// fit cuts texts, the widest first and of equal ones the last, until the table is as
// wide as the terminal. What is no text is never cut, so a terminal may still be too narrow.
func (t *table) fit(shown, widths []int) {
	over := gap*(len(shown)-1) - t.out.width
	for _, w := range widths {
		over += w
	}
	for ; over > 0; over-- {
		widest := -1
		for i, c := range shown {
			least := leastText
			if !t.out.noHeaders {
				least = max(least, cellsOf(t.columns[c].name))
			}
			if t.columns[c].kind == textCell && widths[i] > least && (widest < 0 || widths[i] >= widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return
		}
		widths[widest]--
	}
}

func (t *table) line(shown, widths []int, cells []string, colours bool) {
	pad := 0
	for i, c := range shown {
		text := cells[c]
		if t.columns[c].kind == textCell {
			text = shortened(text, widths[i])
			t.cut = t.cut || text != cells[c]
		}
		// The blanks are written before the next cell, so that no line ends with any.
		t.out.WriteString(strings.Repeat(" ", pad))
		pad = widths[i] - cellsOf(text) + gap
		if t.columns[c].kind == stateCell {
			text = painted(text, colours)
		}
		t.out.WriteString(text)
	}
	t.out.WriteByte('\n')
}
