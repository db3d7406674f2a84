package main

import (
	"context"
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/lancemaster/lancemaster/internal/stub"
)

// simulated is what every answer and report of a simulation says of itself.
const simulated = "simulated: no index was built"

// maxTimes bounds how often one rule sends its report.
const maxTimes = 100

const simulateHelp = `Each --simulate is one rule, [PATTERN:]BEHAVIOUR. The first rule whose PATTERN (with * and ?) matches
the name of a job's index decides; one without a PATTERN matches every name. A job that no rule is for is
refused as without any. A BEHAVIOUR is one of

  status=STATUS    answer with a status, a name or a number; OK accepts and never reports
  report=CODE      accept, then report a result code, a name or a number; with, after commas,
                     after=DURATION       how long after the answer (default at once)
                     late                 not before the job's deadline; after= counts from there
                     proof=PROOF          with this termination proof in the report
                     termination=PROOF    with a termination report that follows
                     secret=USE           right (default), wrong or none
                     times=N              how often the report is sent, 1 to 100 (default 1)
                     advanced             say that external metadata has advanced
                     message=TEXT         the message; all that follows, so it comes last
  hang             never answer
  close            close the connection instead of an answer
  garbage          answer with bytes that are no message

Reports go out as real backends send them: again after a failed call only, three times in all. With
--simulate, SIGHUP makes the process look restarted: a new process epoch, and nothing is left of its jobs.`

// rule is one --simulate.
type rule struct {
	pattern   string // "*" for every name
	behaviour stub.Behaviour
}

// rules is a Behaviour: the first rule that matches decides, and a job that none is for is refused.
type rules []rule

// Dispatched decides by the name of the index.
func (r rules) Dispatched(ctx context.Context, call *stub.Call) stub.Answer {
	for _, one := range r {
		if matches(one.pattern, call.IndexName()) {
			return one.behaviour.Dispatched(ctx, call)
		}
	}
	return stub.NotImplemented{}.Dispatched(ctx, call)
}

// matches tells whether a name, in which a slash is as any other character, matches a checked pattern.
func matches(pattern, name string) bool {
	const slash = "\x00" // no index name holds it
	ok, err := path.Match(strings.ReplaceAll(pattern, "/", slash), strings.ReplaceAll(name, "/", slash))
	return ok && err == nil
}

// parseRules reads all --simulate flags.
func parseRules(texts []string) (rules, error) {
	var all rules
	for _, text := range texts {
		one, err := parseRule(text)
		if err != nil {
			return nil, fmt.Errorf("--simulate %q: %w", text, err)
		}
		for _, before := range all {
			if before.pattern == "*" || before.pattern == one.pattern {
				return nil, fmt.Errorf("--simulate %q never applies: the rule before it for %q decides; put it first or leave it out", text, before.pattern)
			}
		}
		all = append(all, one)
	}
	return all, nil
}

func parseRule(text string) (rule, error) {
	head, rest, more := strings.Cut(text, ",")
	one := rule{pattern: "*"}
	// A pattern may have an equals sign, a value has no colon: the last colon is the pattern's end.
	if i := strings.LastIndexByte(head, ':'); i >= 0 {
		one.pattern, head = head[:i], head[i+1:]
		if one.pattern == "" {
			return rule{}, fmt.Errorf("the pattern before the colon is empty; leave out the colon to match every name")
		}
		if _, err := path.Match(one.pattern, ""); err != nil {
			return rule{}, fmt.Errorf("the pattern %q cannot be read", one.pattern)
		}
	}
	kind, value, hasValue := strings.Cut(head, "=")
	var err error
	switch kind {
	case "status":
		one.behaviour, err = parseStatus(value, more)
	case "report":
		one.behaviour, err = parseReport(value, rest, more)
	case "hang", "close", "garbage":
		if hasValue || more {
			return rule{}, fmt.Errorf("%s takes nothing: there is no answer and no report to say more about", kind)
		}
		one.behaviour = stub.Always{Conduct: map[string]stub.Conduct{"hang": stub.Hang, "close": stub.Close, "garbage": stub.Garbage}[kind]}
	default:
		return rule{}, fmt.Errorf("%q is no behaviour; use status=, report=, hang, close or garbage", kind)
	}
	return one, err
}

func parseStatus(value string, more bool) (stub.Behaviour, error) {
	if more {
		return nil, fmt.Errorf("status takes nothing more: a dispatch that is not reported has no report to say more about; use report=")
	}
	status, err := stub.ParseStatus(value)
	if err != nil {
		return nil, err
	}
	if status == 0 {
		return stub.Always{}, nil
	}
	return stub.Always{Status: status, Messages: []string{simulated}}, nil
}

func parseReport(value, rest string, more bool) (stub.Behaviour, error) {
	code, err := stub.ParseCode(value)
	if err != nil {
		return nil, err
	}
	r := stub.Report{Outcome: stub.Outcome{Code: code, Message: simulated}}
	seen := map[string]bool{}
	for more {
		var word string
		if strings.HasPrefix(rest, "message=") {
			word, more = rest, false
		} else {
			word, rest, more = strings.Cut(rest, ",")
		}
		key, value, hasValue := strings.Cut(word, "=")
		if seen[key] {
			return nil, fmt.Errorf("%s is given twice", key)
		}
		seen[key] = true
		if plain := key == "late" || key == "advanced"; plain == hasValue {
			return nil, fmt.Errorf("%q: write late and advanced alone, and every other word as KEY=VALUE", word)
		}
		if err := setReport(&r, key, value); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// setReport takes in one word of a report's rule.
func setReport(r *stub.Report, key, value string) (err error) {
	switch key {
	case "after":
		r.After, err = time.ParseDuration(value)
		if err == nil && r.After < 0 {
			err = fmt.Errorf("after=%s is negative", value)
		}
	case "late":
		r.Late = true
	case "proof":
		r.Outcome.Proof, err = stub.ParseProof(value)
	case "termination":
		r.Termination, err = stub.ParseProof(value)
	case "secret":
		use, known := map[string]stub.SecretUse{"right": stub.RightSecret, "wrong": stub.WrongSecret, "none": stub.NoSecret}[value]
		if !known {
			err = fmt.Errorf("secret=%s is none of right, wrong and none", value)
		}
		r.Secret = use
	case "times":
		r.Times, err = strconv.Atoi(value)
		if err != nil || r.Times < 1 || r.Times > maxTimes {
			err = fmt.Errorf("times=%s is not a number from 1 to %d", value, maxTimes)
		}
	case "advanced":
		r.Outcome.MetadataAdvanced = true
	case "message":
		if value == "" {
			err = fmt.Errorf("message= is empty")
		}
		r.Outcome.Message = simulated + "; " + value
	default:
		err = fmt.Errorf("%q is no word of a report; see --help", key)
	}
	return err
}
