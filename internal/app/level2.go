//go:build nextlevel

package app

import (
	"context"
	"fmt"

	"github.com/lancemaster/lancemaster/internal/config"
	"github.com/lancemaster/lancemaster/internal/job"
)

// This build plays the one after the present: it uses what the next feature level
// brings, a new field and a new command, as soon as the level is in force. Upgrades
// are tested with it. No release is built like this.

// later uses the level's new field.
func (a *App) later(c job.TermStart) job.TermStart {
	if a.formed().Level >= 2 {
		c.Version = config.BuildInfo().Version
	}
	return c
}

// afterTermStart uses the level's new command, on the newest open job.
func (a *App) afterTermStart(ctx context.Context) error {
	if a.formed().Level < 2 {
		return nil
	}
	var newest job.ID
	a.machine.Read(func(l *job.Live) {
		for _, id := range l.OpenJobs() {
			newest = max(newest, id)
		}
	})
	if newest == 0 {
		return nil
	}
	if _, err := a.journal.Propose(ctx, job.Annotate{Header: a.header(), Job: newest, Note: "a new term began"}); err != nil {
		return fmt.Errorf("cannot annotate job %d: %w", newest, err)
	}
	return nil
}
