// Package config is a node's own configuration: where it listens, where its data
// is, how it logs. It comes from built-in defaults, a YAML file, the environment
// and flags, each over the one before, and is checked once as a whole.
//
// What the whole cluster must agree on is not here but in the replicated settings
// (package job), which are changed at run time.
package config

import (
	"log/slog"
	"slices"
	"time"
)

// Config is a node's checked configuration.
type Config struct {
	NodeID  string // names this member in the Raft configuration; never changes
	DataDir string

	ReportListen    string // backends report here
	ReportAdvertise string // host:port told to backends; empty: the bound address
	ReportProtocol  Protocol
	AdminListen     string // the command line and other clients
	HTTPListen      string // health and metrics
	RaftListen      string
	RaftAdvertise   string // host:port told to other members; empty: the bound address
	TrustedNetwork  bool   // the Raft port may be open without TLS

	// How each service uses TLS: off, server or mutual; between masters off or mutual.
	ReportTLS, AdminTLS, HTTPTLS, RaftTLS, BackendTLS, RefreshTLS string
	// The node's certificate, its key, and the CAs that others are held against.
	TLSCertFile, TLSKeyFile, TLSCAFile string
	AdminAuth                          string // none or required
	TokensFile                         string // the node's own access tokens; empty: none
	DebugListen                        string // profiles; empty: nowhere

	ClusterID int32    // chosen at formation when 0
	Members   []Member // by id; empty: a cluster of one
	Join      bool     // wait to be added instead of forming a cluster

	BackendTokenRef string // file:PATH or env:NAME of the token shared with backends
	BackendProtocol Protocol

	LogLevel  slog.Level
	LogFormat string // text or json

	ShutdownTimeout   time.Duration
	DiskStallLimit    time.Duration // a write that takes longer ends the process
	HeartbeatTimeout  time.Duration // of Raft, as the next three
	ElectionTimeout   time.Duration
	LeaderLease       time.Duration
	SnapshotInterval  time.Duration
	SnapshotThreshold uint64 // log entries between snapshots
	TrailingLogs      uint64 // log entries kept behind a snapshot

	File string // where it was read from; empty: from no file
	// Values are the keys' values as they were given, and Sources say where each came from: default,
	// file, environment or flag.
	Values  map[string]string
	Sources map[string]Source
}

// Sets reports whether any value comes from one of these sources.
func (c *Config) Sets(from ...Source) bool {
	for _, s := range c.Sources {
		if slices.Contains(from, s) {
			return true
		}
	}
	return false
}

// Changed compares two configurations of one node: the keys that a reload changes, and those whose
// new value counts only from the next start, both sorted.
func Changed(old, next Config) (reload, restart []string) {
	for _, k := range keys() {
		switch {
		case old.Values[k.name] == next.Values[k.name]:
		case reloaded[k.name]:
			reload = append(reload, k.name)
		default:
			restart = append(restart, k.name)
		}
	}
	slices.Sort(reload)
	slices.Sort(restart)
	return reload, restart
}

// Member is one master of the cluster and where its Raft service is reached.
type Member struct{ ID, Address string }

// MemberAddress returns the configured address of a member. It wins over the address that the
// cluster has on record, so that addresses change by configuration alone.
func (c *Config) MemberAddress(id string) (address string, ok bool) {
	for _, m := range c.Members {
		if m.ID == id {
			return m.Address, true
		}
	}
	return "", false
}

// Protocol is how Thrift travels on a connection.
type Protocol struct {
	Compact bool // TCompactProtocol; default: strict TBinaryProtocol
	Framed  bool // TFramedTransport; default: unframed
}

// Source says where a value came from.
type Source string

// The sources, weakest first.
const (
	SourceDefault     Source = "default"
	SourceFile        Source = "file"
	SourceEnvironment Source = "environment"
	SourceFlag        Source = "flag"
)

// EnvPrefix begins the environment's names: report.listen is
// LANCEMASTER_REPORT_LISTEN.
const EnvPrefix = "LANCEMASTER_"
