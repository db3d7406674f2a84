package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/lancemaster/lancemaster/internal/client"
)

var trailing = regexp.MustCompile(`(?m) +$`)

// page is what a command shows to people, and how.
type page struct {
	bytes.Buffer
	width     int  // of the terminal; 0: there is none
	colours   bool // states are coloured
	wide      bool
	columns   []string // nil: those of the table
	noHeaders bool
	names     []string // of what is shown
}

func (a *cli) page() *page {
	return &page{width: widthOf(a.Out), colours: a.colours(a.Out), wide: a.output == "wide", columns: a.columns, noHeaders: a.noHeaders}
}

// named says what is shown by its name or id, for those who want no more.
func (p *page) named(name string) {
	if name != "" {
		p.names = append(p.names, name)
	}
}

// note adds a line beside a table; it is left out where the table was asked for in a form of the
// caller's own.
func (p *page) note(format string, args ...any) {
	if p.columns == nil && !p.noHeaders {
		fmt.Fprintf(p, format+"\n", args...)
	}
}

// print writes a value in the form asked for; people writes it for people.
func (a *cli) print(value any, people func(*page)) error {
	var out bytes.Buffer
	switch a.output {
	case "json", "yaml":
		e := json.NewEncoder(&out)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		if err := e.Encode(value); err != nil {
			return err
		}
		if a.output == "yaml" {
			text, err := yamlOf(out.Bytes())
			if err != nil {
				return err
			}
			out.Reset()
			out.Write(text)
		}
	default:
		p := a.page()
		people(p)
		if a.output == "name" {
			for _, n := range p.names {
				fmt.Fprintln(&out, clean(n))
			}
			break
		}
		out.Write(trailing.ReplaceAll(p.Bytes(), nil)) // the padding of last cells
	}
	if _, err := a.Out.Write(out.Bytes()); err != nil {
		return fmt.Errorf("cannot write the output: %w", err)
	}
	return nil
}

// yamlOf turns JSON into YAML with the same fields in the same order.
func yamlOf(text []byte) ([]byte, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	n, err := yamlNode(d)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	e := yaml.NewEncoder(&out)
	e.SetIndent(2)
	if err := e.Encode(n); err != nil {
		return nil, err
	}
	return out.Bytes(), e.Close()
}

func yamlNode(d *json.Decoder) (*yaml.Node, error) {
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	n := &yaml.Node{Kind: yaml.ScalarNode}
	switch v := t.(type) {
	case json.Delim:
		n.Kind, n.Tag = yaml.MappingNode, "!!map"
		if v == '[' {
			n.Kind, n.Tag = yaml.SequenceNode, "!!seq"
		}
		for d.More() { // keys and values, or elements: nodes either way
			child, err := yamlNode(d)
			if err != nil {
				return nil, err
			}
			n.Content = append(n.Content, child)
		}
		_, err := d.Token() // the closing delimiter
		return n, err
	case json.Number:
		n.Tag, n.Value = "!!int", v.String()
		if strings.ContainsAny(n.Value, ".eE") {
			n.Tag = "!!float"
		}
	case bool:
		n.Tag, n.Value = "!!bool", strconv.FormatBool(v)
	case string:
		// Encode, unlike SetString, also quotes what only older parsers take for
		// something else than text, such as yes.
		return n, n.Encode(v)
	default:
		n.Tag, n.Value = "!!null", "null"
	}
	return n, nil
}

// card is a list of named values under headings.
type card struct {
	w       *tabwriter.Writer
	heading string // not yet written: a heading without values is left out
}

func newCard(out *page) *card {
	return &card{w: tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)}
}

func (c *card) section(name string) { c.heading = name }

// add shows a value, unless it is empty.
func (c *card) add(name, value string) {
	if value == "" {
		return
	}
	if c.heading != "" {
		// Two cells, so that the columns of all sections align.
		fmt.Fprintf(c.w, "%s\t\n", c.heading)
		c.heading = ""
	}
	fmt.Fprintf(c.w, "  %s\t%s\n", name, clean(value))
}

func (c *card) addf(name, format string, args ...any) { c.add(name, fmt.Sprintf(format, args...)) }

func (c *card) end() { _ = c.w.Flush() } // it writes to memory

// clean escapes what could steer a terminal or break a line: control and format
// characters, and bytes that are not text.
func clean(s string) string {
	if !strings.ContainsFunc(s, unprintable) {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == utf8.RuneError && strings.HasPrefix(s[i:], "\uFFFD"):
			b.WriteRune(r)
		case r == utf8.RuneError:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case unprintable(r):
			q := strconv.QuoteRune(r)
			b.WriteString(q[1 : len(q)-1])
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

func unprintable(r rune) bool {
	return r == utf8.RuneError || r != ' ' && !unicode.IsPrint(r)
}

// moment shows a time in a table: to the second.
func moment(t client.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// counted is a number of things, of which one is called one.
func counted[N int | int32 | int64](n N, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func number(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

// done tells that something without a body of its own was carried out on what is named.
func (a *cli) done(name, text string, value any) error {
	return a.print(value, func(out *page) {
		out.named(name)
		fmt.Fprintln(out, clean(text))
	})
}
