//go:build !linux

package metrics

import "errors"

// fileSystem is known on Linux only; elsewhere the exporter of the machine tells it.
func fileSystem(string) (size, avail float64, err error) {
	return 0, 0, errors.ErrUnsupported
}
