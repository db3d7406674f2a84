package config

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// key is one configuration key: its dotted name in the file, from which the
// flag's and the variable's names follow.
type key struct {
	name  string
	value string // the default
	usage string
	set   func(*Config, string) error
}

// reloaded are the keys whose new value counts at a reload; all others count from the next start.
var reloaded = map[string]bool{
	"log.level": true, "cluster.members": true, "shutdown_timeout": true,
}

func keys() []key {
	return []key{
		{"node_id", "master-1", "name of this member in the cluster; it never changes once the node has data", text(func(c *Config) *string { return &c.NodeID })},
		{"data_dir", "lancemaster-data", "directory of the journal and the state; created with mode 0700", path(func(c *Config) *string { return &c.DataDir })},
		{"report.listen", "127.0.0.1:9020", "host:port on which backends report results", text(func(c *Config) *string { return &c.ReportListen })},
		{"report.advertise", "", "host:port of the report service as backends reach it; default: the bound address", text(func(c *Config) *string { return &c.ReportAdvertise })},
		{"report.protocol", "binary", "Thrift protocol of the report service: binary, compact, binary-framed or compact-framed", protocol(func(c *Config) *Protocol { return &c.ReportProtocol })},
		{"report.tls", "off", "TLS of the report service: off, server, or mutual, for which backends need a certificate of role backend", word(func(c *Config) *string { return &c.ReportTLS }, tlsModes...)},
		{"admin.listen", "127.0.0.1:9021", "host:port on which the admin service listens, which the command line uses; or unix:/absolute/path, which only this node's user may connect to", text(func(c *Config) *string { return &c.AdminListen })},
		{"admin.tls", "off", "TLS of the admin service: off, server, or mutual, for which callers need a certificate that names their role", word(func(c *Config) *string { return &c.AdminTLS }, tlsModes...)},
		{"admin.auth", "none", "none: callers without a token or certificate may do everything, which only a loopback address allows; required: they may do nothing", word(func(c *Config) *string { return &c.AdminAuth }, "none", "required")},
		{"admin.tokens_file", "", "absolute path of a file with this node's own tokens, NAME ROLE SHA256HEX a line, for the first steps and for a cluster without a leader; empty: none", path(func(c *Config) *string { return &c.TokensFile })},
		{"http.listen", "127.0.0.1:8030", "host:port of /livez, /readyz and /metrics", text(func(c *Config) *string { return &c.HTTPListen })},
		{"http.tls", "off", "TLS of the HTTP server: off, server, or mutual, for which all but /livez and /readyz need a certificate", word(func(c *Config) *string { return &c.HTTPTLS }, tlsModes...)},
		{"http.debug_listen", "", "host:port of this machine's own on which profiles are served under /debug/pprof/; empty: nowhere", text(func(c *Config) *string { return &c.DebugListen })},
		{"raft.listen", "127.0.0.1:9010", "host:port on which members replicate the journal", text(func(c *Config) *string { return &c.RaftListen })},
		{"raft.advertise", "", "host:port of this member as other members reach it; default: the bound address", text(func(c *Config) *string { return &c.RaftAdvertise })},
		{"raft.tls", "off", "TLS between masters: off, or mutual, for which each needs a certificate of role master that names its node", word(func(c *Config) *string { return &c.RaftTLS }, "off", "mutual")},
		{"raft.trusted_network", "false", "true: nobody but the masters can reach raft.listen, which may then be open to other machines without TLS; whoever reaches it can write to the journal and act as anybody at the admin service", truth(func(c *Config) *bool { return &c.TrustedNetwork })},
		{"raft.heartbeat_timeout", "1s", "how long a follower waits for its leader before it stands for election; heartbeats queue behind disk writes, so it must exceed a slow write", duration(func(c *Config) *time.Duration { return &c.HeartbeatTimeout })},
		{"raft.election_timeout", "1s", "how long a candidate waits for votes; at least raft.heartbeat_timeout", duration(func(c *Config) *time.Duration { return &c.ElectionTimeout })},
		{"raft.leader_lease", "500ms", "how long a leader that reaches no majority goes on; at most raft.heartbeat_timeout", duration(func(c *Config) *time.Duration { return &c.LeaderLease })},
		{"raft.snapshot_interval", "2m", "how often the node looks whether a snapshot is due", duration(func(c *Config) *time.Duration { return &c.SnapshotInterval })},
		{"raft.snapshot_threshold", "8192", "journal entries after which a snapshot is taken", count(func(c *Config) *uint64 { return &c.SnapshotThreshold })},
		{"raft.trailing_logs", "10240", "journal entries kept behind a snapshot, so that a slow member need not be sent one", count(func(c *Config) *uint64 { return &c.TrailingLogs })},
		{"raft.disk_stall_limit", "8s", "a disk write that takes longer ends the process, so that a stuck leader does not keep its office", duration(func(c *Config) *time.Duration { return &c.DiskStallLimit })},
		{"cluster.id", "0", "positive 31-bit id of the cluster, told to backends; 0 chooses one at formation", clusterID},
		{"cluster.members", "", "the founding members as id=host:port,id=host:port (or a mapping in the file), the same on each of them; it forms the cluster on empty disks, and later says where members are reached; empty: a cluster of one", members},
		{"cluster.join", "false", "true: this node has an empty disk and waits to be added to the cluster named by cluster.id with `lancemaster cluster add`", truth(func(c *Config) *bool { return &c.Join })},
		{"backend.token", "", "the token shared with backends, by reference: file:/absolute/path or env:NAME; empty: none", text(func(c *Config) *string { return &c.BackendTokenRef })},
		{"backend.protocol", "binary", "Thrift protocol towards backends: binary, compact, binary-framed or compact-framed", protocol(func(c *Config) *Protocol { return &c.BackendProtocol })},
		{"backend.tls", "off", "TLS towards backends: off, server (they are verified), or mutual (this master shows its certificate too)", word(func(c *Config) *string { return &c.BackendTLS }, tlsModes...)},
		{"refresh.tls", "off", "off, or mutual: refreshers reached over TLS that ask for a certificate are shown this node's; each catalog says whether TLS is used and which CAs are trusted", word(func(c *Config) *string { return &c.RefreshTLS }, "off", "mutual")},
		{"tls.cert_file", "", "this node's certificate, PEM; read again when it changes", path(func(c *Config) *string { return &c.TLSCertFile })},
		{"tls.key_file", "", "the certificate's private key, PEM, mode 0600", path(func(c *Config) *string { return &c.TLSKeyFile })},
		{"tls.ca_file", "", "the CAs that others' certificates are held against, PEM", path(func(c *Config) *string { return &c.TLSCAFile })},
		{"log.level", "info", "debug, info, warn or error", level},
		{"log.format", "text", "text or json", text(func(c *Config) *string { return &c.LogFormat })},
		{"shutdown_timeout", "10s", "how long a stopping node may take to settle what is under way", duration(func(c *Config) *time.Duration { return &c.ShutdownTimeout })},
	}
}

// Flag describes one key as a command-line flag.
type Flag struct {
	Key     string // the dotted name, as in overrides
	Name    string // the flag's name, without dashes in front
	Env     string // the environment variable
	Usage   string
	Default string
	// Reload says that a reload changes the value of a running node.
	Reload bool
}

// Flags lists every key as a flag, in the order of the documentation.
func Flags() []Flag {
	var out []Flag
	for _, k := range keys() {
		out = append(out, Flag{Key: k.name, Name: flagName(k.name), Env: envName(k.name), Usage: k.usage, Default: k.value, Reload: reloaded[k.name]})
	}
	return out
}

func flagName(name string) string {
	return strings.NewReplacer(".", "-", "_", "-").Replace(name)
}

func envName(name string) string {
	return EnvPrefix + strings.ToUpper(strings.ReplaceAll(name, ".", "_"))
}

func text(field func(*Config) *string) func(*Config, string) error {
	return func(c *Config, v string) error { *field(c) = v; return nil }
}

// path takes the name of a file or a directory. Its fault does not repeat what was given, which may be what
// belongs in the file.
func path(field func(*Config) *string) func(*Config, string) error {
	return func(c *Config, v string) error {
		if strings.ContainsAny(v, "\n\r\x00") {
			return errors.New("is more than one line, and no path; name the file that holds it")
		}
		*field(c) = v
		return nil
	}
}

func duration(field func(*Config) *time.Duration) func(*Config, string) error {
	return func(c *Config, v string) error {
		d, err := time.ParseDuration(v)
		if err != nil || d <= 0 {
			return fmt.Errorf("%q is not a positive duration such as 10s or 1m", v)
		}
		*field(c) = d
		return nil
	}
}

func count(field func(*Config) *uint64) func(*Config, string) error {
	return func(c *Config, v string) error {
		n, err := strconv.ParseUint(v, 10, 63)
		if err != nil || n == 0 {
			return fmt.Errorf("%q is not a positive whole number", v)
		}
		*field(c) = n
		return nil
	}
}

// tlsModes are what a service may do with TLS where clients may go without a certificate.
var tlsModes = []string{"off", "server", "mutual"}

func word(field func(*Config) *string, words ...string) func(*Config, string) error {
	return func(c *Config, v string) error {
		if !slices.Contains(words, v) {
			return fmt.Errorf("%q is not one of %s", v, strings.Join(words, ", "))
		}
		*field(c) = v
		return nil
	}
}

func truth(field func(*Config) *bool) func(*Config, string) error {
	return func(c *Config, v string) error {
		switch v {
		case "true":
			*field(c) = true
		case "false":
			*field(c) = false
		default:
			return fmt.Errorf("%q is not true or false", v)
		}
		return nil
	}
}

// members reads a member list. Its order does not matter: it is kept sorted by id.
func members(c *Config, v string) error {
	c.Members = nil
	if strings.TrimSpace(v) == "" {
		return nil
	}
	for _, item := range strings.Split(v, ",") {
		id, address, ok := strings.Cut(strings.TrimSpace(item), "=")
		if !ok || id == "" || address == "" {
			return fmt.Errorf("%q is not id=host:port", item)
		}
		c.Members = append(c.Members, Member{ID: id, Address: address})
	}
	slices.SortFunc(c.Members, func(a, b Member) int { return strings.Compare(a.ID, b.ID) })
	return nil
}

func clusterID(c *Config, v string) error {
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt32 {
		return fmt.Errorf("%q is not a whole number from 0 to %d", v, math.MaxInt32)
	}
	c.ClusterID = int32(n)
	return nil
}

func protocol(field func(*Config) *Protocol) func(*Config, string) error {
	return func(c *Config, v string) error {
		switch v {
		case "binary":
			*field(c) = Protocol{}
		case "compact":
			*field(c) = Protocol{Compact: true}
		case "binary-framed":
			*field(c) = Protocol{Framed: true}
		case "compact-framed":
			*field(c) = Protocol{Compact: true, Framed: true}
		default:
			return fmt.Errorf("%q is not binary, compact, binary-framed or compact-framed", v)
		}
		return nil
	}
}

func level(c *Config, v string) error {
	switch strings.ToLower(v) {
	case "debug", "info", "warn", "error":
		return c.LogLevel.UnmarshalText([]byte(v))
	}
	return fmt.Errorf("%q is not debug, info, warn or error", v)
}
