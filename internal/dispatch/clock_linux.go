package dispatch

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// BootClock is the kernel's clock since boot, suspend included.
type BootClock struct{}

// SinceBoot reads CLOCK_BOOTTIME.
func (BootClock) SinceBoot() (time.Duration, error) {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		return 0, fmt.Errorf("cannot read the clock that counts suspend: %w", err)
	}
	return time.Duration(now.Nano()), nil
}
