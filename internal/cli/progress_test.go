package cli

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lancemaster/lancemaster/internal/await"
	"github.com/lancemaster/lancemaster/internal/client"
	"github.com/lancemaster/lancemaster/internal/client/clienttest"
)

// How a job ended is not what it waits for.
func TestWaitsFor(t *testing.T) {
	s := clienttest.New(t)
	c, err := client.New(client.Config{Addresses: []string{s.Addr()}, Name: "ada"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for id, want := range map[int64]string{
		5: "none of the 2 registered backends can take it now",
		2: `it holds the index name \x1b[31mtitle_idx`,
		3: "it waits for nothing and holds nothing",
		1: "",
	} {
		if got := waitsFor(c, id)(t.Context()); got != want {
			t.Errorf("job %d waits for %q, want %q", id, got, want)
		}
	}
}

func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &screen{columns: 40}
		asked := 0
		p := newProgress(t.Context(), out, func(context.Context) string {
			asked++
			return "backend 1 has 2 of 2 slots held by others"
		})
		p.say("job 7: PENDING")
		await.Pass(1500 * time.Millisecond)
		fmt.Fprintln(&above{p, out}, "above")
		await.Pass(10 * time.Second)
		p.say("job 7: RUNNING")
		p.close()
		frames := strings.Split(out.String(), eraseLine)
		if frames[1] != "job 7: PENDING, 0s" || frames[2] != "job 7: PENDING, 1s: backend 1 has 2 of…" || frames[3] != "above\n" {
			t.Errorf("%q", frames)
		}
		if n := len(frames); frames[n-2] != "job 7: RUNNING, 11s" || frames[n-1] != "" {
			t.Errorf("it ends with %q", frames)
		}
		for _, f := range frames {
			if cellsOf(f) >= 40 {
				t.Errorf("too wide: %q", f)
			}
		}
		if asked != 2 {
			t.Errorf("asked %d times in 11 seconds", asked)
		}
	})
}
