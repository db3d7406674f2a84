package dispatch

import "time"

// Clock tells the time since the machine started, counting the time it was
// suspended: a process that slept through its send window must not send.
type Clock interface {
	SinceBoot() (time.Duration, error)
}

// firstBackoff begins every exponential backoff of this package.
const firstBackoff = time.Second

// backoff doubles from a second with each failure, up to limit.
func backoff(failures int, limit time.Duration) time.Duration {
	wait := firstBackoff
	for range failures - 1 {
		if wait >= limit {
			return limit
		}
		wait *= 2
	}
	return min(wait, limit)
}

// earliest returns the earlier of two due times; zero means none.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// wall is a moment by the wall clock.
func (d *Dispatcher) wall(now time.Time) time.Time {
	if d.cfg.WallOffset != nil {
		return now.Add(d.cfg.WallOffset())
	}
	return now
}

func nowMillis(now time.Time) int64 { return now.UnixMilli() }
