package oracle

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/lancemaster/lancemaster/internal/client"
)

// What happens to one fence, as clients see it. Its state is the job that has it, 0 for none.
type fenceAct int

const (
	admitted    fenceAct = iota // to the job, which was free before
	refused                     // because of the job
	letGo                       // by the job
	seenHeld                    // by the job
	seenNotHeld                 // by the job
)

type fenceOp struct {
	fence Fence
	act   fenceAct
	job   int64
}

// opOf is the input of an operation; porcupine knows no types.
func opOf(input any) fenceOp {
	op, _ := input.(fenceOp)
	return op
}

// fenceModel is one fence as it should be.
var fenceModel = porcupine.Model{
	Partition: func(all []porcupine.Operation) [][]porcupine.Operation {
		parts := map[Fence][]porcupine.Operation{}
		for _, o := range all {
			f := opOf(o.Input).fence
			parts[f] = append(parts[f], o)
		}
		var out [][]porcupine.Operation
		for _, part := range parts {
			out = append(out, part)
		}
		return out
	},
	Init: func() any { return int64(0) },
	Step: func(state, input, _ any) (bool, any) {
		op := opOf(input)
		holder, _ := state.(int64)
		switch op.act {
		case admitted:
			return holder == 0, op.job
		case letGo:
			return holder == op.job, int64(0)
		case refused:
			return holder == op.job || op.job == 0 && holder != 0, holder
		case seenHeld:
			return holder == op.job, holder
		default:
			return holder != op.job, holder
		}
	},
	Equal: func(a, b any) bool { return a == b },
	DescribeOperation: func(input, _ any) string {
		op := opOf(input)
		return fmt.Sprintf("%s job %d", [...]string{"admitted", "refused for", "let go by", "held by", "not held by"}[op.act], op.job)
	},
}

// fencePatience bounds the search for an order. It is exponential at worst; a run whose order is not
// found in time is told, since nothing was checked then.
const fencePatience = 30 * time.Second

// seenFences looks for one order of all that clients saw of each fence in which each answer was true
// when it was given.
func (c *checker) seenFences() {
	history := c.fenceHistory()
	result := porcupine.CheckOperationsTimeout(fenceModel, history, fencePatience)
	if result == porcupine.Ok {
		return
	}
	for _, part := range fenceModel.Partition(history) {
		if r := porcupine.CheckOperationsTimeout(fenceModel, part, fencePatience); r != porcupine.Ok {
			c.fault("what clients saw of the fence %+v has no order in which it is true (%s): %s", opOf(part[0].Input).fence, r, describe(part))
		}
	}
}

// fenceHistory makes operations of the facts. A job lets go of its fence at some moment after it was
// submitted and before anybody saw it without. One whose submission was not recorded was there before.
func (c *checker) fenceHistory() []porcupine.Operation {
	var out []porcupine.Operation
	add := func(f Fence, act fenceAct, job int64, s Span) {
		out = append(out, porcupine.Operation{
			ClientId: len(out), Input: fenceOp{f, act, job}, Call: int64(s.From), Return: int64(s.To),
		})
	}
	seen, free := map[int64]Moment{}, map[int64]Moment{} // when a job was first seen, and seen without its fence
	first := func(of map[int64]Moment, o Observation) {
		if at, known := of[o.Job]; !known || o.To < at {
			of[o.Job] = o.To
		}
	}
	for _, o := range c.facts.Observations {
		act := seenHeld
		first(seen, o)
		if !o.FenceHeld {
			act = seenNotHeld
			first(free, o)
		}
		add(o.Fence, act, o.Job, o.Span)
	}
	hold := func(f Fence, job int64, s Span) {
		add(f, admitted, job, s)
		if at, known := free[job]; known {
			add(f, letGo, job, Span{s.From, at})
		}
	}
	byRequest := map[string]*client.Job{}
	for _, j := range c.jobs {
		byRequest[j.RequestID] = j
	}
	submitted := map[int64]bool{}
	for _, s := range c.facts.Submissions {
		j := byRequest[s.RequestID]
		switch {
		case s.Refused == codeFenceHeld:
			add(s.Fence, refused, s.Holder, s.Span)
			continue
		case j == nil:
			continue
		case s.Job == nil:
			s.To = c.final.At // it was there at the end
		}
		hold(s.Fence, j.ID, s.Span)
		submitted[j.ID] = true
	}
	for id, j := range c.jobs {
		if at, known := seen[id]; known && !submitted[id] {
			hold(FenceOf(j), id, Span{earlier, at})
		}
	}
	return out
}

// earlier is before a recorder began.
const earlier = Moment(-1)

const codeFenceHeld = "FENCE_HELD"

// describe lists what was seen of one fence, by the time of its end.
func describe(part []porcupine.Operation) string {
	slices.SortFunc(part, func(a, b porcupine.Operation) int { return cmp.Compare(a.Return, b.Return) })
	var out string
	for _, o := range part {
		out += fmt.Sprintf("\n  %s: %v to %v", fenceModel.DescribeOperation(o.Input, nil), time.Duration(o.Call), time.Duration(o.Return))
	}
	const shown = 4000
	if len(out) > shown {
		out = "..." + out[len(out)-shown:]
	}
	return out
}
