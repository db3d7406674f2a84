package archtest

// module is this repository's module path.
const module = "github.com/lancemaster/lancemaster"

// Names in room.imports that are no package's.
const (
	genGo = "gen-go" // the code generated from idl/
	all   = "*"      // every package under internal/, but not gen-go
)

// room is one package and what its files, other than its tests, may import of this module.
type room struct {
	// path is the package's directory under internal/. A row that begins with cmd/ is for the
	// programs.
	path string
	// imports are paths of other rooms, or genGo, or all.
	imports []string
	// deterministic packages decide what is journaled and what it does: no clock, no randomness,
	// no goroutine, no order of a map.
	deterministic bool
	// testOnly packages are imported only by test files, and by each other.
	testOnly bool
}

// rooms is the house: each package, what it is for, and what it may import. Imports go one way, from
// the programs down to job, which imports nothing. To add a package, add its row; to let one package
// import another, add the name with the reason beside it. Rather than widen a row, think first of an
// interface of a few methods declared by the package that needs them.
var rooms = []room{
	// The record, its states, transitions and classification, names, locators, quotas. Pure.
	{path: "job", deterministic: true},
	// A whole state in memory, for the tests of job and of those who read it.
	{path: "job/jobtest", imports: []string{"job"}, deterministic: true, testOnly: true},
	// The journal's commands and records, and their codec.
	{path: "command", imports: []string{"job", genGo}, deterministic: true},
	// The state file: buckets, keys, transactions, snapshot and restore.
	{path: "store", imports: []string{"job", "command"}, deterministic: true},
	// Decode, transition, write; the typed result.
	{path: "fsm", imports: []string{"job", "command", "store"}, deterministic: true},
	// The Raft library: transport, membership, propose, barrier, leadership.
	{path: "raftnode"},
	// The connections between masters on the Raft port: who is there, calls, and Raft's stream.
	{path: "peer"},

	// Forms the cluster, knows the other masters, changes the membership. raftnode for its types.
	{path: "cluster", imports: []string{"job", "peer", "raftnode"}},

	// The registry's view of backends, their heartbeats, their liveness.
	{path: "backend", imports: []string{"job"}},
	// The refreshers.
	{path: "refresh"},
	// Reads a dataset's manifest.
	{path: "lance"},
	// From a request to the command that admits it.
	{path: "admission", imports: []string{"job", "command", "lance"}},
	// An operator's force release of an UNKNOWN job.
	{path: "release", imports: []string{"job", "lance"}},
	// The rounds that send jobs to backends.
	{path: "dispatch", imports: []string{"job", "command", "backend", "refresh"}},
	// Why a job is where it is. The imports besides job are for what the dispatcher and the heartbeats know.
	{path: "explain", imports: []string{"job", "backend", "dispatch"}},
	// Removes old jobs.
	{path: "retention", imports: []string{"job"}},
	// Starts and stops the leader's services, one term at a time. It knows them by small interfaces;
	// the imports are for the types in those.
	{path: "leader", imports: []string{
		"job", "raftnode", "command", "dispatch", "backend", "refresh", "retention",
	}},

	// Reads the small regular files that a node is configured with.
	{path: "smallfile"},
	// Thrift over TCP with every bound that the library lacks, for servers and clients. Knows no service.
	// gen-go is for its tests, which serve a generated service.
	{path: "thriftnet", imports: []string{genGo}},
	// Certificates and CAs from files that change; what a certificate says of its holder.
	{path: "tlsconf", imports: []string{"smallfile"}},
	// Roles and tokens; tlsconf says who holds a certificate.
	{path: "auth", imports: []string{"job", "tlsconf", "smallfile"}},
	// The Thrift servers and handlers, the client of backends; wire structs to domain and back.
	{path: "rpc", imports: []string{"job", "command", "thriftnet", genGo}},
	// Liveness, readiness, who leads, the metrics page, profiles. tlsconf is for its tests.
	{path: "httpserver", imports: []string{"job", "tlsconf"}},
	// The client that follows the leader.
	{path: "client", imports: []string{"thriftnet", genGo}},
	// A fake admin service, for the tests of client and cli.
	{path: "client/clienttest", imports: []string{genGo}, testOnly: true},
	// The stub backend, for its program and for dev.
	{path: "stub", imports: []string{"thriftnet", genGo}},
	// Defaults, strict load, validation; the version.
	{path: "config", imports: []string{"smallfile"}},
	// The registry of metrics, and those of the replicated state, of which every part is one's own to
	// read; config has the version for the build's metric, backend the bound on its series.
	{path: "metrics", imports: []string{"job", "store", "backend", "config"}},
	// Wires it all: New, Start, Stop, Addr. gen-go is for its tests, which report as backends do.
	{path: "app", imports: []string{all, genGo}},
	// One file per command. serve and dev need config and app, tls needs tlsconf; the rest only client. clidocs is
	// for its tests.
	{path: "cli", imports: []string{"client", "config", "app", "tlsconf", "clidocs"}},

	// The command line of the stub backend.
	{path: "stubcli", imports: []string{"stub", "config", "tlsconf", "clidocs"}},
	// Reference pages and man pages from command lines.
	{path: "clidocs"},

	// How tests wait: polls with a bound, and the time of a bubble.
	{path: "await", testOnly: true},
	// Real app instances with a transport that can be cut.
	// config for what a master is started with; the wire is for what its backends do.
	{path: "testcluster", imports: []string{"app", "await", "client", "config", "oracle", "scripted", "thriftnet", genGo}, testOnly: true},
	// Judges a run under faults by its facts: client for their types, fsm for the states of nodes.
	{path: "oracle", imports: []string{"client", "fsm"}, testOnly: true},
	// A backend that follows a script and records what it is sent.
	{path: "scripted", imports: []string{"oracle", "thriftnet", genGo}, testOnly: true},
	// Starts the real programs, and ends them.
	{path: "programs", imports: []string{"await"}, testOnly: true},
	// The real binaries under faults.
	{path: "faults", imports: []string{all, genGo}, testOnly: true},
	// The real binaries, end to end; plays misbehaving backends, so it speaks the wire itself.
	{path: "e2e", imports: []string{all, genGo}, testOnly: true},
	// These tests.
	{path: "archtest", testOnly: true},

	// The programs: they parse flags and leave the rest to others.
	{path: "cmd/", imports: []string{"app", "cli", "config", "stub", "stubcli"}},
}

// pinned are the modules whose version is a decision, with its reason in docs/design.md: how they
// store, replicate or send was checked for exactly this version. A change is made there first.
var pinned = map[string]string{
	"github.com/apache/thrift":            "v0.25.0",
	"github.com/hashicorp/raft":           "v1.7.3",
	"github.com/hashicorp/raft-boltdb/v2": "v2.3.1",
	"go.etcd.io/bbolt":                    "v1.5.0",
}

// badNames say nothing of what a package is for.
var badNames = []string{"util", "utils", "common", "types", "models", "helpers"}
