package app

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Those who ask while one runs share the next run, and nobody is served by one that began before.
func TestRunsForAllWhoAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTogether()
		var began []time.Time
		f := func() error {
			began = append(began, time.Now())
			<-time.After(time.Second)
			return nil
		}
		start := time.Now()
		var all sync.WaitGroup
		for i := range 100 {
			all.Go(func() {
				<-time.After(time.Duration(i) * time.Millisecond)
				asked := time.Now()
				if err := s.do(t.Context(), f); err != nil {
					t.Error(err)
				}
				if last := began[len(began)-1]; last.Before(asked) {
					t.Errorf("asked after %s, answered by a run that began after %s", asked.Sub(start), last.Sub(start))
				}
			})
		}
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			defer cancel()
			<-time.After(50 * time.Millisecond)
			if err := s.do(ctx, f); err == nil {
				t.Error("it was waited for longer than the caller's patience")
			}
		})
		all.Wait()
		if len(began) != 2 {
			t.Errorf("%d runs for those who asked at once", len(began))
		}
	})
}
