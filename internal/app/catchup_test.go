package app

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lancemaster/lancemaster/internal/await"
)

// Those who ask while one runs share the next run, and nobody is served by one that began before.
func TestRunsForAllWhoAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTogether()
		began := 0 // one runs at a time
		f := func() error {
			began++
			await.Pass(time.Second)
			return nil
		}
		start := time.Now()
		var all sync.WaitGroup
		for i := range 100 {
			all.Go(func() {
				await.Pass(time.Duration(i) * time.Millisecond)
				asked := time.Since(start)
				if err := s.do(t.Context(), f); err != nil {
					t.Error(err)
				}
				// The first runs it from 0s to 1s; who asks meanwhile is served by the run from 1s to 2s.
				if answered, want := time.Since(start), time.Duration(min(i, 1)+1)*time.Second; answered != want {
					t.Errorf("asked after %s, answered after %s, want %s", asked, answered, want)
				}
			})
		}
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			defer cancel()
			await.Pass(50 * time.Millisecond)
			if err := s.do(ctx, f); err == nil {
				t.Error("it was waited for longer than the caller's patience")
			}
		})
		all.Wait()
		if began != 2 {
			t.Errorf("%d runs for those who asked at once", began)
		}
	})
}
