package cli

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/lancemaster/lancemaster/internal/client/clienttest"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the golden files from what the commands do now")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestGolden runs the sessions in testdata. A case is
//
//	# why it is here (any number of lines)
//	@ what the master does, or what surrounds the command
//	$ lancemaster ARGUMENTS
//	what is printed on stdout
//	--- stderr, if anything was printed there
//	--- sent: what the master was asked, if anything
//	--- exit N
//
// Each case has a master of its own. Directives: "next JOB STEP...", "refuse METHOD CODE message | next
// step", "holder N" (of the refusal above), "drop METHOD", "notready REASON", "env NAME=VALUE", "nobody"
// (no master listens), "file NAME CONTENT" (NAME is then under DIR), "types LINE" (there is a terminal,
// at which this is typed), "follower NODE INDEX MS" (the master follows and heard from the leader so long
// ago), "quarantined CAUSE", "token NAME ROLE" (there is one more), "eof" (the terminal is closed at
// once), "screen COLUMNS" (stdout is a terminal so wide; ␛ is the escape character). In arguments and output MASTER is the master's address.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	for _, path := range files {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			var got strings.Builder
			for _, c := range parseCases(t, string(text)) {
				t.Run(c.command, func(t *testing.T) {
					c.run(t)
					got.WriteString(c.String())
				})
			}
			if *rewrite {
				if err := os.WriteFile(path, []byte(got.String()), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got.String() != string(text) {
				t.Errorf("%s differs; see the first difference below, and run go test -run TestGolden ./internal/cli -rewrite\n%s",
					path, firstDifference(string(text), got.String()))
			}
		})
	}
}

type goldenCase struct {
	head    []string // comments and directives
	command string
	output  string
}

func (c *goldenCase) String() string {
	return strings.Join(append(c.head, "$ lancemaster "+c.command), "\n") + "\n" + c.output + "\n"
}

func parseCases(t *testing.T, text string) []*goldenCase {
	t.Helper()
	var out []*goldenCase
	c := &goldenCase{}
	inOutput := false
	for line := range strings.SplitSeq(text, "\n") {
		switch {
		case inOutput:
			inOutput = !strings.HasPrefix(line, "--- exit ")
		case strings.HasPrefix(line, "#") || strings.HasPrefix(line, "@ "):
			c.head = append(c.head, line)
		case strings.HasPrefix(line, "$ lancemaster"):
			c.command = strings.TrimSpace(strings.TrimPrefix(line, "$ lancemaster"))
			out, c = append(out, c), &goldenCase{}
			inOutput = !*rewrite || strings.Contains(text, "--- exit ")
		case line != "":
			t.Fatalf("this line is no part of a case: %q", line)
		}
	}
	return out
}

// session is what surrounds one command line.
type session struct {
	server *clienttest.Server
	env    []string
	dir    string
	addr   string
	typed  []string // at a terminal; nil: there is none
	screen int      // columns of the terminal that stdout goes to; 0: it is none
}

// screen is a terminal that shows what is written.
type screen struct {
	bytes.Buffer
	columns int
}

func (s *screen) IsTerminal() bool { return s.columns > 0 }
func (s *screen) Width() int       { return s.columns }

// terminal is a terminal at which somebody has typed.
type terminal struct{ *strings.Reader }

func (terminal) IsTerminal() bool { return true }

func (s *session) in() io.Reader {
	if s.typed == nil {
		return strings.NewReader("")
	}
	return terminal{strings.NewReader(strings.Join(s.typed, ""))}
}

func newSession(t *testing.T) *session {
	s := &session{server: clienttest.New(t), dir: t.TempDir()}
	s.addr = s.server.Addr()
	s.env = []string{"USER=ada"}
	return s
}

// lancemaster runs a command line and returns the exit status.
func (s *session) lancemaster(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	for i := range args {
		args[i] = strings.NewReplacer("DIR", s.dir, "MASTER", s.server.Addr()).Replace(args[i])
	}
	out, errs := screen{columns: s.screen}, bytes.Buffer{}
	env := append([]string{"LANCEMASTER_ADDR=" + s.addr}, s.env...)
	status = Run(t.Context(), args, env, Streams{In: s.in(), Out: &out, Err: &errs})
	return status, out.String(), errs.String()
}

func (c *goldenCase) run(t *testing.T) {
	s := newSession(t)
	for _, line := range c.head {
		if d, ok := strings.CutPrefix(line, "@ "); ok {
			s.direct(t, d, c.head)
		}
	}
	status, out, errs := s.lancemaster(t, words(c.command)...)
	var b strings.Builder
	b.WriteString(out)
	if errs != "" {
		b.WriteString("--- stderr\n" + errs)
	}
	if sent := s.server.Requests(); len(sent) > 0 {
		b.WriteString("--- sent\n" + strings.Join(sent, "\n") + "\n")
	}
	fmt.Fprintf(&b, "--- exit %d\n", status)
	c.output = s.normal(b.String())
}

func (s *session) direct(t *testing.T, directive string, all []string) {
	t.Helper()
	verb, rest, _ := strings.Cut(directive, " ")
	first, rest2, _ := strings.Cut(rest, " ")
	switch verb {
	case "next":
		var id int64
		if _, err := fmt.Sscan(first, &id); err != nil {
			t.Fatal(err)
		}
		s.server.Next(id, strings.Fields(rest2)...)
	case "refuse":
		code, message, _ := strings.Cut(rest2, " ")
		message, next, _ := strings.Cut(message, " | ")
		r := &clienttest.Refusal{Code: code, Message: message, Next: next}
		for _, line := range all {
			if n, ok := strings.CutPrefix(line, "@ holder "); ok {
				if _, err := fmt.Sscan(n, &r.Holder); err != nil {
					t.Fatal(err)
				}
			}
		}
		s.server.Script(first, clienttest.Behavior{Refusal: r})
	case "holder": // read with the refusal
	case "drop":
		s.server.Script(first, clienttest.Behavior{Drop: true})
	case "notready":
		s.server.NotReady(rest)
	case "types":
		s.typed = append(s.typed, rest+"\n")
	case "eof":
		s.typed = []string{}
	case "screen":
		if _, err := fmt.Sscan(first, &s.screen); err != nil {
			t.Fatal(err)
		}
	case "follower":
		var index, ms int64
		if _, err := fmt.Sscan(rest2, &index, &ms); err != nil {
			t.Fatal(err)
		}
		s.server.Follower(first, index, ms)
	case "reports":
		s.server.ReportsAt(first)
	case "token":
		s.server.AddToken(first, rest2)
	case "quarantined":
		s.server.Quarantined(rest)
	case "env":
		s.env = append([]string{rest}, s.env...)
	case "nobody":
		s.addr = closedAddr(t)
	case "file":
		if err := os.WriteFile(filepath.Join(s.dir, first), []byte(rest2), 0o600); err != nil {
			t.Fatal(err)
		}
	default:
		t.Fatalf("unknown directive %q", directive)
	}
}

var randomID = regexp.MustCompile(`\b[0-9a-f]{32}\b`)

// normal replaces what differs from run to run.
func (s *session) normal(text string) string {
	text = strings.NewReplacer(s.server.Addr(), "MASTER", s.addr, "NOBODY", s.dir, "DIR", "\x1b", "␛").Replace(text)
	return randomID.ReplaceAllString(text, "RANDOM-ID")
}

func closedAddr(t *testing.T) string {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// words splits a command line at spaces outside of single or double quotes.
func words(line string) []string {
	var out []string
	var w strings.Builder
	quote, begun := rune(0), false
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '\'' || r == '"'):
			quote, begun = r, true
		case quote == 0 && r == ' ':
			if begun {
				out = append(out, w.String())
			}
			w.Reset()
			begun = false
		default:
			w.WriteRune(r)
			begun = true
		}
	}
	if begun {
		out = append(out, w.String())
	}
	return out
}

func firstDifference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range max(len(w), len(g)) {
		a, b := "(end)", "(end)"
		if i < len(w) {
			a = w[i]
		}
		if i < len(g) {
			b = g[i]
		}
		if a != b {
			return fmt.Sprintf("line %d\nwant %s\ngot  %s", i+1, a, b)
		}
	}
	return "none"
}
