package cli

import (
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lancemaster/lancemaster/internal/client"
)

func parseID(what, s string) (int64, error) {
	id, err := strconv.ParseInt(s, 10, 64)
	if err != nil || id <= 0 {
		return 0, usagef("%q is not the id of a %s: a whole number from 1", s, what)
	}
	return id, nil
}

// filled refuses flags that were given empty, as by a script's variable that is not set:
// left out they mean "any", which is hardly what was meant.
func filled(cmd *cobra.Command, flags ...string) error {
	for _, name := range flags {
		f := cmd.Flags().Lookup(name)
		if f == nil || !f.Changed {
			continue
		}
		list, isList := f.Value.(pflag.SliceValue)
		if isList && len(list.GetSlice()) == 0 || !isList && f.Value.String() == "" {
			return usagef("--%s is empty; give it a value or leave it out", name)
		}
	}
	return nil
}

// parseTable splits DB.T at the first dot.
func parseTable(s string) (database, table string, err error) {
	database, table, ok := strings.Cut(s, ".")
	if !ok || database == "" || table == "" {
		return "", "", usagef("--table %q is not DATABASE.TABLE", s)
	}
	return database, table, nil
}

// parsePairs reads KEY=VALUE arguments in order, repeated keys and all.
func parsePairs(flag string, list []string) ([]client.Property, error) {
	var out []client.Property
	for _, s := range list {
		k, v, ok := strings.Cut(s, "=")
		if !ok || k == "" {
			return nil, usagef("%s %q is not KEY=VALUE", flag, s)
		}
		out = append(out, client.Property{Key: k, Value: v})
	}
	return out, nil
}

// parseInstant reads an RFC 3339 time, or a duration before now.
func parseInstant(flag, s string, now time.Time) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(s); err == nil {
		if d < 0 {
			return time.Time{}, usagef("%s %s is negative: it would be a time to come; a duration counts back from now", flag, s)
		}
		return now.Add(-d), nil
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return time.Time{}, usagef("%s %q is neither a time like 2026-03-01T12:00:00Z nor a duration before now like 24h", flag, s)
	}
	return t, nil
}

const maxArgumentFile = 64 << 10

// textOrFile returns the text itself, or with @ in front the content of a file.
func textOrFile(flag, s string) (string, error) {
	path, isFile := strings.CutPrefix(s, "@")
	if !isFile {
		return s, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return "", unreadable(flag, err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxArgumentFile+1))
	if err != nil {
		return "", unreadable(flag, err)
	}
	if len(b) > maxArgumentFile {
		return "", usagef("%s: %s is larger than %d bytes", flag, path, maxArgumentFile)
	}
	return strings.TrimSpace(string(b)), nil
}

func unreadable(flag string, err error) error {
	return usagef("%s: %v; give @ and the path of a file that can be read, or the text itself", flag, err)
}
