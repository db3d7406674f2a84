package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"sort"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/lancemaster/lancemaster/internal/smallfile"
)

// maxFile bounds a configuration file, in bytes.
const maxFile = 1 << 20

// maxFaults bounds how many faults are told one by one. A file that has more is another file than meant.
const maxFaults = 50

// Load reads the configuration: defaults, then the file at path (none when path
// is empty), then the environment (as from os.Environ), then overrides by dotted
// key. Every fault that can be known is reported, each naming its key and source; of a
// file that cannot be read or is not YAML, only that. Of a faulty configuration nothing is
// returned but the format of the log, where that is not at fault, for telling the faults in it.
func Load(path string, env []string, overrides map[string]string) (Config, error) {
	l := newLoader()
	l.c.File = path
	if path != "" {
		if err := l.file(path); err != nil {
			return Config{}, err
		}
	}
	l.environment(env)
	for _, name := range sorted(overrides) {
		l.put(name, overrides[name], SourceFlag, "--"+flagName(name))
	}
	for _, k := range keys() {
		err := checkNoSecret(k.name, l.c.Values[k.name])
		if err == nil {
			err = k.set(&l.c, l.c.Values[k.name])
		}
		if err != nil {
			l.fault(fmt.Errorf("%s: %w", l.place(k.name), err))
			l.bad[k.name] = true
		}
	}
	for _, err := range l.c.faults(l.bad, l.place) {
		l.fault(err)
	}
	if len(l.faults) > 0 {
		none := Config{}
		if slices.Contains(logFormats, l.c.LogFormat) && !l.bad["log.format"] {
			none.LogFormat = l.c.LogFormat
		}
		return none, l.err()
	}
	return l.c, nil
}

// loader is a configuration that is being put together.
type loader struct {
	c     Config
	known map[string]key
	// bad are the keys whose value is not known, or not what was meant: what rests on them is not judged.
	bad    map[string]bool
	seen   map[string]int // in the file, at which line
	faults []error
}

func newLoader() *loader {
	l := &loader{known: map[string]key{}, bad: map[string]bool{}, seen: map[string]int{}, c: Config{Values: map[string]string{}, Sources: map[string]Source{}}}
	for _, k := range keys() {
		l.known[k.name] = k
		l.c.Values[k.name], l.c.Sources[k.name] = k.value, SourceDefault
	}
	return l
}

// place names a key and where its value stands.
func (l *loader) place(key string) string {
	switch from := l.c.Sources[key]; from {
	case SourceDefault:
		return key
	case SourceFile:
		return fmt.Sprintf("%s (from file, line %d)", key, l.seen[key])
	default:
		return fmt.Sprintf("%s (from %s)", key, from)
	}
}

func (l *loader) fault(err error) { l.faults = append(l.faults, err) }

func (l *loader) err() error {
	told := l.faults
	if more := len(told) - maxFaults; more > 0 {
		told = append(told[:maxFaults:maxFaults], fmt.Errorf("and %d more faults", more))
	}
	return errors.Join(told...)
}

// put gives a key a value. as says in an error where it stands.
func (l *loader) put(name, value string, from Source, as string) {
	if _, ok := l.known[name]; !ok {
		if len(l.faults) >= maxFaults { // it is only counted
			l.fault(fmt.Errorf("%s is not known", as))
			return
		}
		meant, err := unknownKey(as, name, l.known)
		l.fault(err)
		for _, k := range meant {
			l.bad[k] = true
		}
		return
	}
	l.c.Values[name], l.c.Sources[name] = value, from
}

func (l *loader) environment(env []string) {
	byEnv := map[string]string{}
	for name := range l.known {
		byEnv[envName(name)] = name
	}
	for _, kv := range env {
		name, value, _ := strings.Cut(kv, "=")
		if k, ok := byEnv[name]; ok {
			l.put(k, value, SourceEnvironment, name)
		} else if near := nearVariable(name, byEnv); near != "" {
			l.fault(fmt.Errorf("the variable %s is not known; did you mean %s?", name, near))
			l.bad[byEnv[near]] = true
		}
	}
}

// platformVariable is what Kubernetes and Docker set for a service whose name begins with ours.
var platformVariable = regexp.MustCompile(`_(PORT|PORT_\d+_.+|SERVICE_HOST|SERVICE_PORT(_.+)?)$`)

// nearVariable returns the variable that one of our prefix was probably meant to be. Others are left
// alone: the prefix is shared with the command line's variables, with what a platform may set for a
// service of this name, and with what people's scripts keep under it.
func nearVariable(name string, known map[string]string) (near string) {
	rest, ok := strings.CutPrefix(name, EnvPrefix)
	if !ok || platformVariable.MatchString(name) {
		return ""
	}
	least := 3
	if len(rest) <= 6 { // two other letters make another short word
		least = 2
	}
	for _, k := range sorted(known) {
		if len(name) > len(k)+2 {
			continue
		}
		d := editDistance(name, k)
		if d == 2 && swapped(name, k) {
			d = 1
		}
		if d < least {
			near, least = k, d
		}
	}
	return near
}

// swapped reports whether two texts differ in that two neighbours have changed places.
func swapped(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	i := 0
	for i < len(a) && a[i] == b[i] {
		i++
	}
	return i+1 < len(a) && a[i] == b[i+1] && a[i+1] == b[i] && a[i+2:] == b[i+2:]
}

// Mistyped returns the first variable of the environment that one of some variables was probably meant to
// be, and which, or "". The variables of the configuration's keys are known too.
func Mistyped(env []string, names []string) (name, meant string) {
	all, wanted := map[string]string{}, map[string]string{}
	for _, k := range keys() {
		all[envName(k.name)] = k.name
	}
	for _, n := range names {
		all[n], wanted[n] = n, n
	}
	for _, kv := range env {
		name, _, _ := strings.Cut(kv, "=")
		if _, ok := all[name]; ok {
			continue
		}
		if near := nearVariable(name, wanted); near != "" {
			return name, near
		}
	}
	return "", ""
}

// file takes the keys of a YAML file. The error says that nothing of it could be understood.
func (l *loader) file(path string) error {
	raw, _, err := smallfile.Read(path, maxFile)
	if err != nil {
		return fmt.Errorf("cannot read the configuration file: %w", err)
	}
	var doc, second yaml.Node
	docs := yaml.NewDecoder(bytes.NewReader(raw))
	if err := docs.Decode(&doc); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("the configuration file %s is not YAML: %w", path, err)
	}
	if err := docs.Decode(&second); err == nil {
		l.fault(fmt.Errorf("%s:%d: a second YAML document begins; the configuration is one", path, second.Line))
	} else if !errors.Is(err, io.EOF) {
		return fmt.Errorf("the configuration file %s is not YAML: %w", path, err)
	}
	if doc.Kind == 0 || len(doc.Content) == 0 { // empty, or comments only
		return nil
	}
	if top := doc.Content[0]; top.Tag != "!!null" {
		l.mapping(path, "", top)
	}
	return nil
}

// mapping takes the keys of a YAML mapping as dotted names.
func (l *loader) mapping(path, prefix string, n *yaml.Node) {
	if n.Kind != yaml.MappingNode {
		l.fault(fmt.Errorf("%s:%d: expected keys and values", path, n.Line))
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		name := k.Value
		if prefix != "" {
			name = prefix + "." + k.Value
		}
		if l.seen[name] != 0 { // also when it is written once as a.b and once as b under a
			l.fault(fmt.Errorf("%s:%d: key %.80q is given twice", path, k.Line, name))
			l.bad[name] = true
			continue
		}
		l.seen[name] = k.Line
		l.value(path, name, k, v)
	}
}

// value takes what stands behind a key.
func (l *loader) value(path, name string, k, v *yaml.Node) {
	as := fmt.Sprintf("%s:%d: key %.80q", path, k.Line, name)
	switch {
	case v.Kind == yaml.ScalarNode:
		value := v.Value
		if v.Tag == "!!null" {
			value = ""
		}
		l.put(name, value, SourceFile, as)
	case v.Kind == yaml.MappingNode && name == "cluster.members": // ids are the cluster's, not keys of ours
		list, err := memberMapping(path, v)
		if err != nil {
			l.fault(err)
			l.bad[name] = true
			return
		}
		l.put(name, list, SourceFile, as)
	case v.Kind == yaml.MappingNode && l.known[name].set != nil:
		l.fault(fmt.Errorf("%s takes a single value, and has no keys under it", as))
		l.bad[name] = true
	case v.Kind == yaml.MappingNode:
		l.mapping(path, name, v)
	default:
		l.fault(fmt.Errorf("%s:%d: key %.80q takes a single value, not a list or an alias", path, v.Line, name))
		l.bad[name] = true
	}
}

// memberMapping writes a mapping of ids to addresses as the list that a flag takes.
func memberMapping(path string, n *yaml.Node) (string, error) {
	var items []string
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		if v.Kind != yaml.ScalarNode || strings.ContainsAny(k.Value+v.Value, ",=") {
			return "", fmt.Errorf("%s:%d: cluster.members maps each id to host:port", path, k.Line)
		}
		items = append(items, k.Value+"="+v.Value)
	}
	return strings.Join(items, ","), nil
}

// maxTypos is how far a name may be from a known one to be taken for it.
const maxTypos = 3

// unknownKey says that there is no such key, and returns those that may have been meant.
func unknownKey(as, name string, known map[string]key) (meant []string, err error) {
	for _, k := range sorted(known) {
		if strings.HasPrefix(k, name+".") {
			meant = append(meant, k)
		}
	}
	if len(meant) > 0 {
		return meant, fmt.Errorf("%s takes no value itself, but has keys under it, such as %q", as, meant[0])
	}
	best, distance := "", maxTypos+1 // further away is no suggestion
	for _, k := range sorted(known) {
		if len(name) > len(k)+maxTypos {
			continue
		}
		if d := editDistance(name, k); d < distance {
			best, distance = k, d
		}
	}
	if best == "" {
		return nil, fmt.Errorf("%s is not known; see lancemaster serve --help for the keys", as)
	}
	return []string{best}, fmt.Errorf("%s is not known; did you mean %q?", as, best)
}

// editDistance counts the insertions, deletions and substitutions between two
// short names.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			diagonal, row[j] = row[j], min(row[j]+1, row[j-1]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}

func sorted[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	sort.Strings(out)
	return out
}
