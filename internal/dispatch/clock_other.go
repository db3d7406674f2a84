//go:build !linux

package dispatch

import "time"

// BootClock stands in, where the kernel has no CLOCK_BOOTTIME, with the wall
// clock: it counts suspend, and a step of it can only make a send fail its
// recheck or run a little late within the backend's own deadline check.
type BootClock struct{}

// SinceBoot reads the wall clock.
func (BootClock) SinceBoot() (time.Duration, error) {
	return time.Duration(time.Now().UnixNano()), nil
}
