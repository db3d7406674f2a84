package rpc

import (
	"cmp"
	"slices"
	"strings"

	"github.com/lancemaster/lancemaster/internal/job"
)

// minEcho is the length below which a value is not looked for: words that short are
// no credentials, and are in every other message.
const minEcho = 6

// withoutEchoes returns what makes text of a peer's fit to be kept. A backend may
// repeat in an error what it was called with, in any words; what looks like a
// credential is masked everywhere, but only here is it known what the call held.
func withoutEchoes(values ...string) func(text string) string {
	// Of two values that begin alike the longer one is looked for first.
	values = slices.SortedFunc(slices.Values(values), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(b), len(a)), strings.Compare(a, b))
	})
	var pairs []string
	for _, v := range values {
		if len(v) >= minEcho {
			pairs = append(pairs, v, "***")
		}
	}
	echoes := strings.NewReplacer(pairs...)
	return func(text string) string { return job.SanitizeMessage(echoes.Replace(text)) }
}
