//go:build !nextlevel

package app

import (
	"context"

	"github.com/lancemaster/lancemaster/internal/job"
)

// later is what a build of the next feature level would add to the start of a
// term; see level2.go.
func (*App) later(c job.TermStart) job.TermStart { return c }

// afterTermStart is what a build of the next feature level would journal then.
func (*App) afterTermStart(context.Context) error { return nil }
