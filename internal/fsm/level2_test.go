//go:build nextlevel

package fsm

import (
	"fmt"
	"testing"

	"github.com/lancemaster/lancemaster/internal/command"
	"github.com/lancemaster/lancemaster/internal/job"
)

const mayBeLater = true

// laterCommand is now and then one of level 2, be it in force or not, or raises the
// level.
func (a *author) laterCommand() job.Command {
	switch n := a.choose.below(20); {
	case n == 19:
		return job.RaiseLevel{Header: a.head(), Level: 2}
	case n >= 17 && len(a.ids) > 0:
		return job.Annotate{Header: a.head(), Job: a.ids[a.choose.below(len(a.ids))], Note: "seen\nby ann"}
	case n == 16:
		a.model.Position.Term++
		c := job.TermStart{Header: a.head(), Term: a.model.Position.Term}
		c.Version = fmt.Sprint("v", a.choose.below(3))
		return c
	default:
		return nil
	}
}

// TestBuildsShareLevelOne: see the normal build's. Here is the other half of it.
func TestBuildsShareLevelOne(t *testing.T) {
	rewriteLevelOne(t, snapshotOfNew)
	wantSharedState(t, levelOneJournal, levelOneSum, snapshotOfOld, snapshotOfNew)
}

// TestBuildsOfLevelTwo: nodes of this build agree at level 2 too, whatever they start
// from, and on a journal that went through the raise.
func TestBuildsOfLevelTwo(t *testing.T) {
	if *rewrite {
		a := newAuthor(newSeeded(29))
		a.later = true
		var journal []written
		for range 300 {
			journal = append(journal, a.next())
		}
		writePinned(t, levelTwoJournal, journalText(journal))
		m := openTemp(t)
		replayed(t, m, journal)
		writePinned(t, levelTwoSum, fmt.Appendf(nil, "%x\n", hash(t, m)))
		writePinned(t, levelTwoSnapshot, snapshotAt(t, journal))
	}
	wantSharedState(t, levelTwoJournal, levelTwoSum, levelTwoSnapshot)
	journal := readJournal(t, levelTwoJournal)
	n := raises(t, journal)
	if n >= len(journal)*2/3 {
		t.Fatalf("the level is raised by entry %d of %d: too late for the snapshot to be of level 2", n, len(journal))
	}
	used := map[string]bool{}
	m := openTemp(t)
	for i, w := range journal {
		r := apply(m, w)[0]
		c, err := command.Decode(w.entry.Data)
		if err != nil || job.LevelOf(c) < 2 {
			continue
		}
		if i < n {
			t.Errorf("entry %d is of level 2, which entry %d raises: the normal build would stop at another place than it is tested for", i, n)
		}
		used[c.Name()] = used[c.Name()] || r.Refusal == nil
	}
	if len(used) != 2 || !used["ANNOTATE"] || !used["TERM_START"] {
		t.Errorf("applied at level 2: %v", used)
	}
}

// TestRefusedLevelLeavesNothing: a command of level 2 in a journal of level 1 leaves the
// state as it would be without it.
func TestRefusedLevelLeavesNothing(t *testing.T) {
	journal := readJournal(t, levelOneJournal)
	with, without := openTemp(t), openTemp(t)
	replayed(t, without, journal)
	replayed(t, with, journal[:100])
	at := with.Applied()
	data, err := command.Encode(job.Annotate{Header: job.Header{At: 1, Actor: "ann"}, Job: 1, Note: "n"})
	if err != nil {
		t.Fatal(err)
	}
	// In the place of an entry that is no command, so that the positions stay the same.
	for i, w := range journal[100:] {
		if w.entry.Type != 0 {
			entry := *w.entry
			entry.Type, entry.Data = 0, data
			r := apply(with, written{entry: &entry})[0]
			if r.Refusal == nil || r.Refusal.Code != job.CodeUnsupportedLevel {
				t.Fatalf("after %+v, entry %d is answered by %+v", at, entry.Index, r)
			}
			replayed(t, with, journal[100+i+1:])
			break
		}
		replayed(t, with, []written{w})
	}
	check(t, with)
	if hash(t, with) != hash(t, without) {
		t.Error("it left something")
	}
}
