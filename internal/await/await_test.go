package await

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestPollEndsWithWhatItWaitsForOrWithItsBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, looks := time.Now(), 0
		if !Poll(time.Second, time.Hour, func() bool { looks++; return looks == 4 }) || time.Since(began) != 3*time.Second {
			t.Errorf("held after %d looks and %s", looks, time.Since(began))
		}
		began = time.Now()
		if Poll(time.Second, time.Minute, func() bool { return false }) {
			t.Error("what never holds held")
		}
		if took := time.Since(began); took < time.Minute || took > time.Minute+2*time.Second {
			t.Errorf("a bound of a minute took %s", took)
		}
	})
}

func TestTimePassesInABubbleOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if Pass(time.Hour); time.Since(began) != time.Hour {
			t.Errorf("%s passed", time.Since(began))
		}
	})
	defer func() {
		if recover() == nil {
			t.Error("real time was waited for")
		}
	}()
	Pass(time.Nanosecond)
}
