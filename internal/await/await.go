// Package await is how tests wait for what nothing signals: by polling, with a bound, or by letting the time of
// a synctest bubble pass. Everything else waits for a channel. Moment is no waiting: it is for tests that make
// faults at moments of their choice. That no test sleeps otherwise is checked by internal/archtest.
package await

import (
	"testing"
	"time"
)

// often is how long Until waits between two looks.
const often = 5 * time.Millisecond

// Until polls until something holds, and ends the test when it does not within a bound.
func Until(t testing.TB, bound time.Duration, what string, holds func() bool) {
	t.Helper()
	if !Poll(often, bound, holds) {
		t.Fatalf("waited %s in vain: %s", bound, what)
	}
}

// Poll looks every so often until something holds, at most for a bound, and says whether it does.
func Poll(every, bound time.Duration, holds func() bool) bool {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for deadline := time.Now().Add(bound); !holds(); <-tick.C {
		if time.Now().After(deadline) {
			return false
		}
	}
	return true
}

// bubblesEnd is later than the clock of any bubble gets, which begins at the start of 2000, and earlier than any
// real one.
var bubblesEnd = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)

// Pass lets time pass for this goroutine inside a synctest bubble, where it takes none. It panics outside: a test
// that waits for real time to pass depends on the machine's speed.
func Pass(d time.Duration) {
	if time.Now().After(bubblesEnd) {
		panic("await.Pass outside of a synctest bubble: wait for a signal, or poll with await.Until")
	}
	time.Sleep(d) //sleep: virtual time, as was just checked
}

// Moment lets real time pass until the moment that a test has chosen for a fault. Nothing is waited for: whatever
// is under way then is what the fault hits, and the test holds whatever that is.
func Moment(d time.Duration) { <-time.After(d) }
