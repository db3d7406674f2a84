package explain

import (
	"fmt"
	"strings"

	"github.com/lancemaster/lancemaster/internal/job"
)

// outcome says how a job ended, by whose word, and with what to go by. Of an UNKNOWN job
// unknown says it, with where to look.
func (x *explanation) outcome() {
	if text := x.ended(); text != "" {
		x.say(Outcome, "", "%s", text)
	}
}

// ended puts a job's result into words; none where it has no result.
func (x *explanation) ended() string {
	r := x.rec.Result
	if r == nil {
		return ""
	}
	var what []string
	if r.Code.Valid() { // not of a job that was never invoked
		what = append(what, r.Code.String())
	}
	if r.Reason.Valid() && r.Reason != job.ReasonNone {
		what = append(what, r.Reason.String())
	}
	text := fmt.Sprintf("%s%s at %s", strings.Join(what, ", "), x.ender(), at(r.At))
	if r.Message != "" {
		text += ": " + r.Message
	}
	return text
}

// ender says by whose word a job ended, which the history knows. That is a courtesy:
// without it the rest is as true.
func (x *explanation) ender() string {
	events, _, err := x.e.cfg.State.History(x.rec.ID)
	if err != nil {
		return ""
	}
	for _, e := range events {
		switch {
		case e.From.Terminal() || !e.To.Terminal():
		case e.Actor == job.ActorSystem:
			return ", found by the master"
		case e.Kind == job.EventCompleted && e.Actor == fmt.Sprintf("backend:%d", x.rec.Dispatch.BackendID):
			return fmt.Sprintf(", reported by backend %d", x.rec.Dispatch.BackendID)
		default:
			return ", by " + e.Actor
		}
	}
	return ""
}

// slotReleased says who let go of the job's slot on their own word.
func (x *explanation) slotReleased() {
	if r := x.rec.SlotRelease; r != nil {
		x.say(SlotReleased, "", "%s released its slot at %s (%s)", r.Actor, at(r.At), r.Note)
	}
}
