package stub

import (
	"context"
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"
)

// Simulated is what every answer and report of a rule says of itself.
const Simulated = "simulated: no index was built"

// maxTimes bounds how often one rule sends its report.
const maxTimes = 100

// RulesHelp says how rules are written, for a program's help.
const RulesHelp = `A RULE is [PATTERN:]BEHAVIOUR, and may be given several times. The first rule whose PATTERN (with * and
?) matches the name of a job's index decides; one without a PATTERN matches every name. A job that no rule
is for is refused as without any. A BEHAVIOUR is one of

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
  garbage          answer with bytes that are no message`

// rule is a behaviour for the jobs whose index has a name that matches.
type rule struct {
	pattern   string // "*" for every name
	behaviour Behaviour
}

// rules is a Behaviour: the first rule that matches decides, and a job that none is for is refused.
type rules []rule

// Dispatched decides by the name of the index.
func (r rules) Dispatched(ctx context.Context, call *Call) Answer {
	for _, one := range r {
		if matches(one.pattern, call.IndexName()) {
			return one.behaviour.Dispatched(ctx, call)
		}
	}
	return NotImplemented{}.Dispatched(ctx, call)
}

// matches tells whether a name, in which a slash is as any other character, matches a checked pattern.
func matches(pattern, name string) bool {
	const slash = "\x00" // no index name holds it
	ok, err := path.Match(strings.ReplaceAll(pattern, "/", slash), strings.ReplaceAll(name, "/", slash))
	return ok && err == nil
}

// ParseRules makes a Behaviour of rules as RulesHelp has them. It refuses those that make no sense or
// that never apply. Everything that the behaviour says is labelled as simulated.
func ParseRules(texts []string) (Behaviour, error) {
	all, err := parseRules(texts)
	if err != nil {
		return nil, err
	}
	return all, nil
}

func parseRules(texts []string) (rules, error) {
	var all rules
	for _, text := range texts {
		one, err := parseRule(text)
		if err != nil {
			return nil, fmt.Errorf("rule %q: %w", text, err)
		}
		for _, before := range all {
			if before.pattern == "*" || before.pattern == one.pattern {
				return nil, fmt.Errorf("rule %q never applies: the one before it for %q decides; put it first or leave it out", text, before.pattern)
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
		one.behaviour = Always{Conduct: map[string]Conduct{"hang": Hang, "close": Close, "garbage": Garbage}[kind]}
	default:
		return rule{}, fmt.Errorf("%q is no behaviour; use status=, report=, hang, close or garbage", kind)
	}
	return one, err
}

func parseStatus(value string, more bool) (Behaviour, error) {
	if more {
		return nil, fmt.Errorf("status takes nothing more: a dispatch that is not reported has no report to say more about; use report=")
	}
	status, err := parseStatusNumber(value)
	if err != nil {
		return nil, err
	}
	if status == 0 {
		return Always{}, nil
	}
	return Always{Status: status, Messages: []string{Simulated}}, nil
}

func parseReport(value, rest string, more bool) (Behaviour, error) {
	code, err := parseCode(value)
	if err != nil {
		return nil, err
	}
	r := Report{Outcome: Outcome{Code: code, Message: Simulated}}
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
func setReport(r *Report, key, value string) (err error) {
	switch key {
	case "after":
		r.After, err = time.ParseDuration(value)
		if err == nil && r.After < 0 {
			err = fmt.Errorf("after=%s is negative", value)
		}
	case "late":
		r.Late = true
	case "proof":
		r.Outcome.Proof, err = parseProof(value)
	case "termination":
		r.Termination, err = parseProof(value)
	case "secret":
		use, known := map[string]SecretUse{"right": RightSecret, "wrong": WrongSecret, "none": NoSecret}[value]
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
		r.Outcome.Message = Simulated + "; " + value
	default:
		err = fmt.Errorf("%q is no word of a report; see --help", key)
	}
	return err
}
