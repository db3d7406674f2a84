package job_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lancemaster/lancemaster/internal/job"
	"github.com/lancemaster/lancemaster/internal/job/jobtest"
)

var rewrite = flag.Bool("rewrite", false, "write what the scenarios in testdata do instead of checking it")

// TestScenarios plays the scenarios of testdata. In a scenario a line that is
// indented is what the command above it answers; with -rewrite those lines are
// written anew. The commands are described in testdata/README.md.
func TestScenarios(t *testing.T) { playAll(t, "testdata/*.txt") }

func playAll(t *testing.T, pattern string) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := play(t, string(want))
			if *rewrite {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != string(want) {
				t.Errorf("%s differs; run with -rewrite and read the difference\n%s", file, firstDifference(string(want), got))
			}
		})
	}
}

func firstDifference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range max(len(w), len(g)) {
		wantLine, gotLine := "(end)", "(end)"
		if i < len(w) {
			wantLine = w[i]
		}
		if i < len(g) {
			gotLine = g[i]
		}
		if wantLine != gotLine {
			return fmt.Sprintf("line %d\nwant: %s\ngot:  %s", i+1, wantLine, gotLine)
		}
	}
	return "no difference"
}

// play runs a scenario and returns it with its answers.
func play(t *testing.T, text string) string {
	s := &scenario{t: t, state: jobtest.New(), now: 1_000_000, actor: "ann"}
	var out strings.Builder
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "  ") {
			continue
		}
		out.WriteString(line + "\n")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		s.line = line
		for answer := range strings.Lines(s.run(parseArgs(t, line))) {
			out.WriteString("  " + strings.TrimSuffix(answer, "\n") + "\n")
		}
	}
	return out.String()
}

// scenario is a state and the clock and actor of the commands to come.
type scenario struct {
	t     *testing.T
	state *jobtest.State
	now   job.Millis
	actor string
	line  string
}

// args are a line's words: the command, what it is about, and key=value.
type args struct {
	t     *testing.T
	words []string
	keys  map[string]string
	pairs []job.Property // the keys in the order given
}

// parseArgs splits a line at spaces outside quotes. {a*70} is the letter a 70
// times, and a value in quotes is a Go string.
func parseArgs(t *testing.T, line string) args {
	a := args{t: t, keys: map[string]string{}}
	for _, word := range splitWords(line) {
		word = expand(t, word)
		if i := strings.IndexByte(word, '"'); i >= 0 {
			text, err := strconv.Unquote(word[i:])
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			word = word[:i] + text
		}
		if key, value, ok := strings.Cut(word, "="); ok {
			a.keys[key] = value
			a.pairs = append(a.pairs, job.Property{Key: key, Value: value})
			continue
		}
		a.words = append(a.words, word)
	}
	return a
}

func splitWords(line string) []string {
	quoted := false
	return strings.FieldsFunc(line, func(r rune) bool {
		if r == '"' {
			quoted = !quoted
		}
		return r == ' ' && !quoted
	})
}

func expand(t *testing.T, word string) string {
	for {
		before, rest, ok := strings.Cut(word, "{")
		inner, after, closed := strings.Cut(rest, "}")
		what, times, repeated := strings.Cut(inner, "*")
		if !ok || !closed || !repeated {
			return word
		}
		n, err := strconv.Atoi(times)
		if err != nil {
			t.Fatalf("%s: %v", word, err)
		}
		word = before + strings.Repeat(what, n) + after
	}
}

func (a args) word(i int) string {
	if i >= len(a.words) {
		a.t.Fatalf("%v: a word is missing", a.words)
	}
	return a.words[i]
}

func (a args) has(flag string) bool {
	for _, w := range a.words[1:] {
		if w == flag {
			return true
		}
	}
	return false
}

func (a args) text(key, otherwise string) string {
	if v, ok := a.keys[key]; ok {
		return v
	}
	return otherwise
}

func (a args) number(key string, otherwise int64) int64 {
	if v, ok := a.keys[key]; ok {
		return a.parse(v)
	}
	return otherwise
}

func (a args) parse(s string) int64 {
	n, err := strconv.ParseInt(s, 0, 64)
	if err != nil {
		a.t.Fatalf("%v: %v", a.words, err)
	}
	return n
}

func (a args) duration(s string) job.Millis {
	d, err := time.ParseDuration(s)
	if err != nil {
		a.t.Fatalf("%v: %v", a.words, err)
	}
	return job.Millis(d.Milliseconds())
}

// run does one line.
func (s *scenario) run(a args) string {
	switch a.word(0) {
	case "advance":
		s.now += a.duration(a.word(1))
		return ""
	case "actor":
		s.actor = a.text("name", "")
		if len(a.words) > 1 {
			s.actor = a.word(1)
		}
		return ""
	case "ready":
		return s.ready()
	case "restart":
		return s.restart()
	case "show":
		return s.show(job.ID(a.parse(a.word(1))))
	case "history":
		return s.history(job.ID(a.parse(a.word(1))))
	case "held":
		return s.held()
	case "cluster":
		return s.cluster()
	case "settings":
		return s.settings()
	case "registry":
		return s.registry()
	}
	c := s.command(a)
	before := s.fingerprint()
	change, refusal := s.state.Apply(c)
	if refusal != nil {
		if after := s.fingerprint(); after != before {
			s.t.Errorf("%s: refused, and the state changed\nbefore: %s\nafter:  %s", s.line, before, after)
		}
		return s.refused(refusal)
	}
	s.checkRebuilt()
	return s.answered(change)
}

// ready is where most scenarios begin: a cluster with an open gate, a catalog and
// two slots on one backend.
func (s *scenario) ready() string {
	for _, line := range []string{"form", "catalog local", "backend 10.0.0.1", "set admission.enabled=true"} {
		if answer := s.run(parseArgs(s.t, line)); strings.HasPrefix(answer, "refused") {
			s.t.Fatalf("%s: %s", line, answer)
		}
	}
	return "ok"
}

// fingerprint is all that a refused command must leave alone.
func (s *scenario) fingerprint() string { return fingerprint(s.t, s.state) }

func fingerprint(t interface{ Fatal(...any) }, s *jobtest.State) string {
	text, err := json.Marshal([]any{s.Cluster(), s.Settings(), s.Catalogs(), s.Backends(), s.All(), s.Events, s.Changes, s.OpenJobs(), s.Members(), s.Tokens()})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// checkRebuilt compares the memory with one rebuilt from what is stored.
func (s *scenario) checkRebuilt() {
	rebuilt, err := s.state.Rebuilt()
	if err != nil {
		s.t.Fatalf("%s: rebuilding: %v", s.line, err)
	}
	if !reflect.DeepEqual(s.state.Live, rebuilt) {
		s.t.Fatalf("%s: the memory differs from a rebuilt one\nkept:    %+v\nrebuilt: %+v", s.line, s.state.Live, rebuilt)
	}
}

func (s *scenario) restart() string {
	s.checkRebuilt()
	rebuilt, err := s.state.Rebuilt()
	if err != nil {
		s.t.Fatal(err)
	}
	s.state.Live = rebuilt
	return s.held()
}

func (s *scenario) head() job.Header { return job.Header{At: s.now, Actor: s.actor} }

// job returns the command's job and, unless the line says otherwise, its present
// revision.
func (s *scenario) job(a args) (job.ID, job.Revision) {
	id := job.ID(a.parse(a.word(1)))
	var present job.Revision
	if r := s.state.Job(id); r != nil {
		present = r.Revision
	}
	return id, job.Revision(a.number("rev", int64(present)))
}

// identity is that of the job's dispatch unless the line says otherwise.
func (s *scenario) identity(a args) job.Identity {
	id := job.ID(a.parse(a.word(1)))
	var d job.Dispatch
	if r := s.state.Job(id); r != nil {
		d = r.Dispatch
	}
	return job.Identity{
		Job:          id,
		Revision:     job.Revision(a.number("dispatch", int64(d.Revision))),
		InvocationID: a.text("inv", d.InvocationID),
		ProcessEpoch: a.number("epoch", d.ProcessEpoch),
	}
}
