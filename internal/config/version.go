package config

import "runtime/debug"

// Version is the release's version, stamped by the linker:
//
//	-ldflags "-X github.com/lancemaster/lancemaster/internal/config.Version=v1.2.3"
var Version = ""

// Build says what this binary was built from.
type Build struct {
	Version  string `json:"version"`
	Revision string `json:"revision"` // the commit, "unknown" outside a checkout
	Modified bool   `json:"modified"` // the checkout had uncommitted changes
	Go       string `json:"go"`
}

// BuildInfo returns the stamped version, with what the Go toolchain recorded for
// whatever was not stamped.
func BuildInfo() Build {
	b := Build{Version: Version, Revision: "unknown", Go: "unknown"}
	info, ok := debug.ReadBuildInfo()
	if ok {
		b.Go = info.GoVersion
		if b.Version == "" && info.Main.Version != "" && info.Main.Version != "(devel)" {
			b.Version = info.Main.Version
		}
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				b.Revision = s.Value
			case "vcs.modified":
				b.Modified = s.Value == "true"
			}
		}
	}
	if b.Version == "" {
		b.Version = "devel"
	}
	return b
}
