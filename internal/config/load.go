package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sort"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/lancemaster/lancemaster/internal/smallfile"
)

// maxFile bounds a configuration file, in bytes.
const maxFile = 1 << 20

// Load reads the configuration: defaults, then the file at path (none when path
// is empty), then the environment (as from os.Environ), then overrides by dotted
// key. Every fault found is reported, each naming its key and source.
func Load(path string, env []string, overrides map[string]string) (Config, error) {
	known := map[string]key{}
	c := Config{Sources: map[string]Source{}}
	values := map[string]string{}
	c.Values = values
	for _, k := range keys() {
		known[k.name] = k
		values[k.name], c.Sources[k.name] = k.value, SourceDefault
	}
	var faults []error
	put := func(name, value string, from Source, as string) {
		if _, ok := known[name]; !ok {
			faults = append(faults, unknownKey(as, name, known))
			return
		}
		values[name], c.Sources[name] = value, from
	}
	if path != "" {
		entries, err := readFile(path)
		if err != nil {
			return Config{}, err
		}
		for _, e := range entries {
			put(e.name, e.value, SourceFile, fmt.Sprintf("%s:%d: key %q", path, e.line, e.name))
		}
	}
	byEnv := map[string]string{}
	for name := range known {
		byEnv[envName(name)] = name
	}
	for _, kv := range env {
		name, value, _ := strings.Cut(kv, "=")
		if k, ok := byEnv[name]; ok {
			put(k, value, SourceEnvironment, name)
		} else if near := nearVariable(name, byEnv); near != "" {
			faults = append(faults, fmt.Errorf("the variable %s is not known; did you mean %s?", name, near))
		}
	}
	for _, name := range sorted(overrides) {
		put(name, overrides[name], SourceFlag, "--"+flagName(name))
	}
	for _, k := range keys() {
		if err := k.set(&c, values[k.name]); err != nil {
			faults = append(faults, fmt.Errorf("%s (from %s): %w", k.name, c.Sources[k.name], err))
		}
	}
	if len(faults) > 0 {
		return Config{}, errors.Join(faults...)
	}
	return c, c.Validate()
}

// nearVariable returns the variable that one of our prefix was probably meant to be. Others are left
// alone: the prefix is shared with the command line's variables and with what a platform may set for a
// service of this name.
func nearVariable(name string, known map[string]string) string {
	if !strings.HasPrefix(name, EnvPrefix) {
		return ""
	}
	for _, k := range sorted(known) {
		if editDistance(name, k) <= 2 {
			return k
		}
	}
	return ""
}

type entry struct {
	name, value string
	line        int
}

// readFile flattens a YAML mapping into dotted keys.
func readFile(path string) ([]entry, error) {
	raw, _, err := smallfile.Read(path, maxFile)
	if err != nil {
		return nil, fmt.Errorf("cannot read the configuration file: %w", err)
	}
	var doc, second yaml.Node
	docs := yaml.NewDecoder(bytes.NewReader(raw))
	if err := docs.Decode(&doc); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("the configuration file %s is not YAML: %w", path, err)
	}
	if err := docs.Decode(&second); err == nil {
		return nil, fmt.Errorf("%s:%d: a second YAML document begins; the configuration is one", path, second.Line)
	} else if !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("the configuration file %s is not YAML: %w", path, err)
	}
	if doc.Kind == 0 || len(doc.Content) == 0 { // empty, or comments only
		return nil, nil
	}
	var out []entry
	if err := flatten(path, "", doc.Content[0], &out); err != nil {
		return nil, err
	}
	return out, nil
}

func flatten(path, prefix string, n *yaml.Node, out *[]entry) error {
	if n.Kind != yaml.MappingNode {
		return fmt.Errorf("%s:%d: expected keys and values%s", path, n.Line, under(prefix))
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		name := k.Value
		if prefix != "" {
			name = prefix + "." + k.Value
		}
		if seen[name] {
			return fmt.Errorf("%s:%d: key %q is given twice", path, k.Line, name)
		}
		seen[name] = true
		switch v.Kind {
		case yaml.ScalarNode:
			value := v.Value
			if v.Tag == "!!null" {
				value = ""
			}
			*out = append(*out, entry{name, value, k.Line})
		case yaml.MappingNode:
			if name == "cluster.members" { // ids are the cluster's, not keys of ours
				list, err := memberMapping(path, v)
				if err != nil {
					return err
				}
				*out = append(*out, entry{name, list, k.Line})
				continue
			}
			if err := flatten(path, name, v, out); err != nil {
				return err
			}
		default:
			return fmt.Errorf("%s:%d: key %q takes a single value, not a list or an alias", path, v.Line, name)
		}
	}
	return nil
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

func under(prefix string) string {
	if prefix == "" {
		return ""
	}
	return fmt.Sprintf(" under %q", prefix)
}

func unknownKey(as, name string, known map[string]key) error {
	for _, k := range sorted(known) {
		if strings.HasPrefix(k, name+".") {
			return fmt.Errorf("%s takes no value itself, but has keys under it, such as %q", as, k)
		}
	}
	best, distance := "", 4 // further away is no suggestion
	for _, k := range sorted(known) {
		if d := editDistance(name, k); d < distance {
			best, distance = k, d
		}
	}
	if best == "" {
		return fmt.Errorf("%s is not known; see lancemaster serve --help for the keys", as)
	}
	return fmt.Errorf("%s is not known; did you mean %q?", as, best)
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
