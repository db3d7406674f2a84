package admission

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/lancemaster/lancemaster/internal/job"
	"github.com/lancemaster/lancemaster/internal/lance"
)

// The page tells callers how to write a contract: its examples are contracts, and its table says of each type
// what the manifest calls it and which indexes may be built on it.
func TestThePageOnContractsIsTrue(t *testing.T) {
	page, err := os.ReadFile("../../docs/schema-contract.md")
	if err != nil {
		t.Fatal(err)
	}
	examples, rows := 0, 0
	types := map[string]bool{}
	filled := strings.NewReplacer("P,S", "10,2", "P:S", "10:2", "TZ", "Europe/Berlin")
	code := regexp.MustCompile("`([^`]+)`")
	spans := func(cell string) (out []string) {
		for _, m := range code.FindAllStringSubmatch(cell, -1) {
			out = append(out, filled.Replace(m[1]))
		}
		return out
	}
	for line := range strings.Lines(string(page)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "{") {
			examples++
			if c, err := parseContract(line); err != nil || c.JSON() != line {
				t.Errorf("the example %s: %v", line, err)
			}
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		if len(cells) != 4 || !strings.HasPrefix(strings.TrimSpace(cells[0]), "`") || !slices.Contains([]string{"yes", "no"}, strings.TrimSpace(cells[3])) {
			continue
		}
		rows++
		spelled, stored := spans(cells[0]), spans(cells[1])
		if len(spelled) != len(stored) {
			t.Fatalf("%s: %d types and %d names", line, len(spelled), len(stored))
		}
		for i, nt := range spelled {
			types[nt] = true
			if got := lance.ParseLogicalType(stored[i]).Spelling(); got != nt {
				t.Errorf("%s is %q in a contract; the page says %q", stored[i], got, nt)
			}
			if !known(nt) {
				t.Errorf("%s is not known", nt)
			}
			for at, index := range map[int]job.IndexType{2: job.IndexBTree, 3: job.IndexBitmap} {
				may := slices.ContainsFunc(admits[index].types, func(r *regexp.Regexp) bool { return r.MatchString(nt) })
				if said := strings.TrimSpace(cells[at]) == "yes"; said != may {
					t.Errorf("%s on %s: the page says %v, and it is %v", index, nt, said, may)
				}
			}
		}
	}
	if examples < 3 || rows < 8 || len(types) < 20 {
		t.Errorf("found %d examples, %d rows, %d types", examples, rows, len(types))
	}
}

// Who writes a type as the manifest or Arrow has it is told the spelling, or where to look.
func TestATypeThatNoContractHas(t *testing.T) {
	for nt, next := range map[string]string{
		"string": "write utf8", "double": "write float64", "timestamp:us:-": `write timestamp<us,tz="">`, "date32:day": "write date<day>",
		"timestamp[us]": "docs/schema-contract.md", "Int64": "docs/schema-contract.md", "": "docs/schema-contract.md",
	} {
		_, err := parseContract(`{"scv":1,"flds":[{"fid":0,"nn":"x","nt":"` + nt + `","nul":false}]}`)
		refusal, ok := err.(*job.Refusal) //nolint:errorlint // it is not wrapped
		if !ok || refusal.Code != job.CodeInvalid || !strings.Contains(refusal.Message, "is no type of a contract") || !strings.Contains(refusal.Next, next) {
			t.Errorf("%q: %v", nt, err)
		}
	}
}
