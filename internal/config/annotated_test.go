package config_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lancemaster/lancemaster/internal/config"
)

var rewrite = flag.Bool("rewrite", false, "write the files that are made from the keys")

// The example file and the reference page are made from the keys, so that they cannot lie.
func TestTheFilesMadeFromTheKeysAreCurrent(t *testing.T) {
	for path, want := range map[string]string{
		"../../deploy/config/lancemaster.yaml": config.Annotated(),
		"../../docs/configuration.md":          config.Reference(),
	} {
		if *rewrite {
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != want {
			t.Errorf("%s is not what the keys say; run go test ./internal/config -rewrite", path)
		}
	}
}

// Taken literally and with every comment sign removed, the example gives the defaults.
func TestTheExampleIsTheDefaults(t *testing.T) {
	var plain strings.Builder
	begun := false // the keys begin after the first empty line
	for line := range strings.Lines(config.Annotated()) {
		begun = begun || line == "\n"
		if rest, ok := strings.CutPrefix(line, "# "); ok && !strings.HasPrefix(line, "##") && begun {
			plain.WriteString(rest)
		}
	}
	for name, text := range map[string]string{"as it is": config.Annotated(), "uncommented": plain.String()} {
		got, err := config.Load(file(t, text), nil, nil)
		if err != nil {
			t.Fatalf("%s: %v\n%s", name, err, text)
		}
		for _, f := range config.Flags() {
			if got.Values[f.Key] != f.Default {
				t.Errorf("%s: %s is %q, not %q", name, f.Key, got.Values[f.Key], f.Default)
			}
			if from := got.Sources[f.Key]; name == "uncommented" && from != config.SourceFile {
				t.Errorf("%s is not in the example", f.Key)
			}
		}
	}
}
