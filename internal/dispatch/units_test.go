package dispatch

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lancemaster/lancemaster/internal/backend"
	"github.com/lancemaster/lancemaster/internal/job"
)

// TestLatchOpensOnce lets a writer race those who would close the latch.
func TestLatchOpensOnce(t *testing.T) {
	for range 200 {
		var l latch
		var sent, closed int
		var mu sync.Mutex
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				var took bool
				if i%2 == 0 {
					took = l.send()
				} else {
					took = l.close()
				}
				mu.Lock()
				defer mu.Unlock()
				if took && i%2 == 0 {
					sent++
				} else if took {
					closed++
				}
			})
		}
		all.Wait()
		if sent+closed != 1 || l.sent() != (sent == 1) {
			t.Fatalf("the latch was taken %d times for a send, %d times to close it", sent, closed)
		}
	}
}

func TestSendsCloseNeedsTheInvocation(t *testing.T) {
	s := NewSends()
	e := &send{identity: job.Identity{Job: 1, InvocationID: "one"}}
	if !s.add(e) || s.add(&send{identity: job.Identity{Job: 1, InvocationID: "two"}}) {
		t.Fatal("a job has room for exactly one send")
	}
	if s.Close(1, "two") || s.Close(2, "one") {
		t.Error("another invocation's latch was closed")
	}
	if !s.Close(1, "one") || s.Close(1, "one") {
		t.Error("the latch closes once")
	}
	if e.latch.send() {
		t.Error("a closed latch was opened")
	}
}

func TestBackoff(t *testing.T) {
	for i, want := range []float64{1, 2, 4, 8, 16, 32, 60, 60} {
		if got := backoff(i+1, maxPrepareBackoff).Seconds(); got != want {
			t.Errorf("after %d failures %v s, want %v s", i+1, got, want)
		}
	}
	if got := backoff(1<<30, maxPrepareBackoff); got != maxPrepareBackoff {
		t.Errorf("after many failures %s", got)
	}
}

func TestRemaining(t *testing.T) {
	now := time.UnixMilli(1_000_000)
	for _, tt := range []struct {
		until job.Millis
		want  time.Duration
	}{
		{1_000_000 + 5_000, 5 * time.Second},
		{1_000_000 - 5_000, 0},
		{1_000_000 + 50_000, 10 * time.Second},
		{1 << 62, 10 * time.Second},
		{0, 0},
	} {
		if got := remaining(tt.until, 10*time.Second, now); got != tt.want {
			t.Errorf("until %d: %s, want %s", tt.until, got, tt.want)
		}
	}
}

func TestTokenBucket(t *testing.T) {
	settings := job.Settings{MaxPerRound: 3, DispatchInterval: 10 * time.Second}
	start := time.Unix(100, 0)
	var b bucket
	left := func(after time.Duration) int {
		n, _ := b.left(start.Add(after), settings)
		return n
	}
	if left(0) != 3 {
		t.Fatal("a new bucket is not full")
	}
	b.spend(start)
	b.spend(start.Add(4 * time.Second))
	if n, next := b.left(start.Add(9*time.Second), settings); n != 1 || !next.Equal(start.Add(10*time.Second)) {
		t.Errorf("%d tokens left, the next at %v", n, next)
	}
	if left(10*time.Second) != 2 || left(14*time.Second) != 3 {
		t.Error("a token does not come back an interval after it was spent")
	}
	settings.MaxPerRound = 1
	b.spend(start.Add(20 * time.Second))
	b.spend(start.Add(20 * time.Second))
	if left(21*time.Second) > 0 {
		t.Error("a lowered setting does not count what was spent")
	}
}

func TestProcessGone(t *testing.T) {
	at := func(seconds int) time.Time { return time.Unix(int64(seconds), 0) }
	seen := func(epoch int64, addr string, term uint64, asked int) backend.Observation {
		return backend.Observation{ProcessEpoch: epoch, RemoteAddr: addr, Term: term, RequestedAt: at(asked)}
	}
	tests := []struct {
		name string
		seen []backend.Observation
		want bool
		host string
	}{
		{name: "two, where the send went", seen: []backend.Observation{seen(1, "a:1", 5, 11), seen(2, "a:1", 5, 12)}, host: "a", want: true},
		{name: "two, elsewhere", seen: []backend.Observation{seen(1, "b:1", 5, 11), seen(2, "b:1", 5, 12)}, host: "a"},
		{name: "nothing seen", seen: nil, want: false},
		{name: "one process", seen: []backend.Observation{seen(1, "a", 5, 11)}, want: false},
		{name: "two, both after", seen: []backend.Observation{seen(1, "a", 5, 11), seen(2, "a", 5, 12)}, want: true},
		{name: "two, one asked at the end of the send", seen: []backend.Observation{seen(1, "a", 5, 10), seen(2, "a", 5, 12)}, want: false},
		{name: "two, one before", seen: []backend.Observation{seen(1, "a", 5, 9), seen(2, "a", 5, 12)}, want: false},
		{name: "two addresses", seen: []backend.Observation{seen(1, "a", 5, 11), seen(2, "b", 5, 12)}, want: false},
		{name: "another term", seen: []backend.Observation{seen(1, "a", 4, 11), seen(2, "a", 5, 12)}, want: false},
		{name: "two of three", seen: []backend.Observation{seen(1, "a", 5, 9), seen(2, "a", 5, 11), seen(3, "a", 5, 12)}, want: true},
		{name: "an older process answers last", seen: []backend.Observation{seen(2, "a", 5, 11), seen(1, "a", 5, 12)}, want: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := processGone(tt.seen, 5, at(10), tt.host); got != tt.want {
				t.Errorf("%v, want %v", got, tt.want)
			}
		})
	}
}

type sized struct {
	Sender
	size int
	err  error
}

func (s sized) Size(*job.Invocation) (int, error) { return s.size, s.err }

func TestBounds(t *testing.T) {
	options := func(n int) map[string]string {
		m := map[string]string{}
		for i := range n {
			m[strings.Repeat("k", i+1)] = "v"
		}
		return m
	}
	tests := []struct {
		name    string
		options map[string]string
		size    int
		want    string
	}{
		{"all at their bounds", map[string]string{strings.Repeat("k", 256): strings.Repeat("v", 4096)}, 512 << 10, ""},
		{"64 options", options(64), 1, ""},
		{"65 options", options(65), 1, "65 storage options; at most 64"},
		{"a long key", map[string]string{strings.Repeat("k", 257): ""}, 1, "257 bytes; at most 256"},
		{"a long value", map[string]string{"key": strings.Repeat("v", 4097)}, 1, "value of storage option key has 4097 bytes"},
		{"too large", nil, 512<<10 + 1, "524289 bytes; at most 524288"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			over, err := overBounds(sized{size: tt.size}, &job.Invocation{StorageOptions: tt.options})
			if err != nil || (tt.want == "") != (over == "") || !strings.Contains(over, tt.want) {
				t.Errorf("%q, %v; want %q", over, err, tt.want)
			}
			if strings.Contains(over, "vvvv") {
				t.Error("the message shows an option's value")
			}
		})
	}
	if _, err := overBounds(sized{err: errors.New("no")}, &job.Invocation{}); err == nil {
		t.Error("an invocation that cannot be encoded is no error")
	}
}

func TestReferences(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	t.Setenv("LANCEMASTER_TEST_KEY", "from-env")
	t.Setenv("LANCEMASTER_TEST_EMPTY", "")
	good := write("good", "hunter2\n")
	tests := []struct{ reference, want, fails string }{
		{"file:" + good, "hunter2", ""},
		{"file:" + write("crlf", "hunter2\r\n"), "hunter2", ""},
		{"file:" + write("lines", "one\ntwo\n"), "one\ntwo", ""},
		{"env:LANCEMASTER_TEST_KEY", "from-env", ""},
		{"env:LANCEMASTER_TEST_EMPTY", "", "is not set"},
		{"env:LANCEMASTER_TEST_NONE", "", "LANCEMASTER_TEST_NONE is not set"},
		{"file:" + filepath.Join(dir, "none"), "", "no such file"},
		{"file:" + dir, "", "not a regular file"},
		{"file:" + write("empty", "\n"), "", "is empty"},
		{"file:" + write("large", strings.Repeat("x", maxSecret+1)), "", "more than"},
		{"file:", "", "neither file:PATH nor env:NAME"},
		{"vault:x", "", "neither file:PATH nor env:NAME"},
		{"hunter2", "", "neither file:PATH nor env:NAME"},
	}
	references := NewReferences()
	for _, tt := range tests {
		got, err := references.Resolve(t.Context(), tt.reference)
		if got != tt.want || (err == nil) != (tt.fails == "") || err != nil && !strings.Contains(err.Error(), tt.fails) {
			t.Errorf("%s: %q, %v; want %q, %q", tt.reference, got, err, tt.want, tt.fails)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: the error shows what may be a secret", tt.reference)
		}
	}
	write("good", "rotated")
	if got, err := references.Resolve(t.Context(), "file:"+good); got != "rotated" || err != nil {
		t.Errorf("after a rotation %q, %v", got, err)
	}
	done, cancel := context.WithCancel(t.Context())
	cancel()
	references.reads["stuck"] = &secretRead{done: make(chan struct{})}
	if _, err := references.Resolve(done, "file:stuck"); !errors.Is(err, context.Canceled) {
		t.Errorf("a read that hangs: %v", err)
	}
}

func TestInvocationsDiffer(t *testing.T) {
	w := newWorld(t)
	a := &attempt{run: &run{d: w.node("a").d}, rec: &job.Record{ID: 1}}
	seen := map[string]bool{}
	for range 100 {
		i, err := a.build()
		if err != nil {
			t.Fatal(err)
		}
		if seen[i.InvocationID] || seen[i.Secret] || len(i.Secret) != 32 || strings.Trim(i.Secret, "0123456789abcdef") != "" {
			t.Fatalf("invocation %q repeats, or its secret is malformed", i.InvocationID)
		}
		seen[i.InvocationID], seen[i.Secret] = true, true
		if job.SanitizeMessage(i.InvocationID) != i.InvocationID {
			t.Fatalf("%q is taken for a secret", i.InvocationID)
		}
	}
}

func TestBootClockRuns(t *testing.T) {
	first, err := BootClock{}.SinceBoot()
	if err != nil || first <= 0 {
		t.Fatalf("%s, %v", first, err)
	}
	second, err := BootClock{}.SinceBoot()
	if err != nil || second < first {
		t.Errorf("%s after %s, %v", second, first, err)
	}
}

// What is stored is masked by patterns: none may take a word of our own for a secret.
func TestOwnWordsSurviveTheMasking(t *testing.T) {
	for _, text := range []string{
		"the refresher's token is not to be had: this master cannot read the secret's file: stat /run/tok: no such file or directory",
		"the refresher's password is not to be had: the environment variable NONE is not set on this master",
	} {
		if got := message(text); got != text {
			t.Errorf("%q is stored as %q", text, got)
		}
	}
}
