package config

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// faults checks what a single key cannot: addresses, references, and keys that must
// fit each other. Start and every reload use it. bad are keys whose own value is
// faulty: what rests on one of them is not judged, nor what rests on another that was found at fault here. place
// names a key and where its value stands.
func (c *Config) faults(bad map[string]bool, place func(key string) string) (faults []error) {
	found := map[string]bool{}
	fault := func(keys []string, format string, args ...any) {
		if slices.ContainsFunc(keys, func(k string) bool { return bad[k] }) || slices.ContainsFunc(keys[1:], func(k string) bool { return found[k] }) {
			return
		}
		found[keys[0]] = true
		faults = append(faults, fmt.Errorf("%s: %s", place(keys[0]), fmt.Sprintf(format, args...)))
	}
	if err := CheckNodeID(c.NodeID); err != nil {
		fault(on("node_id"), "%v", err)
	}
	if c.DataDir == "" {
		fault(on("data_dir"), "is empty; name a directory that only this node uses")
	}
	c.validateMembers(fault)
	c.validateListeners(fault)
	if c.ElectionTimeout < c.HeartbeatTimeout {
		fault(on("raft.election_timeout", "raft.heartbeat_timeout"), "%s is shorter than raft.heartbeat_timeout, %s", c.ElectionTimeout, c.HeartbeatTimeout)
	}
	if c.LeaderLease > c.HeartbeatTimeout {
		fault(on("raft.leader_lease", "raft.heartbeat_timeout"), "%s is longer than raft.heartbeat_timeout, %s; an old leader would go on beside a new one", c.LeaderLease, c.HeartbeatTimeout)
	}
	c.validateTLS(fault)
	c.validateOpen(fault)
	if c.TokensFile != "" && !filepath.IsAbs(c.TokensFile) {
		fault(on("admin.tokens_file"), "%q is not an absolute path", c.TokensFile)
	}
	if c.DebugListen != "" && !Loopback(c.DebugListen) {
		fault(on("http.debug_listen"), "%s can be reached from other machines, and profiles show what is in memory; listen on 127.0.0.1 or [::1]", c.DebugListen)
	}
	if err := CheckRef(c.BackendTokenRef); c.BackendTokenRef != "" && err != nil {
		fault(on("backend.token"), "%v", err)
	}
	if !slices.Contains(logFormats, c.LogFormat) {
		fault(on("log.format"), "%q is not text or json", c.LogFormat)
	}
	return faults
}

var logFormats = []string{"text", "json"}

// faulter takes a fault of the first of some keys, which rests on all of them.
type faulter func(keys []string, format string, args ...any)

// on lists the keys that a fault rests on, the one it is told of first.
func on(keys ...string) []string { return keys }

// maxNodeID bounds a node's id, in bytes.
const maxNodeID = 64

// CheckNodeID checks the name of a member. The signs that separate ids from addresses in lists
// cannot be in it.
func CheckNodeID(id string) error {
	if id == "" || len(id) > maxNodeID || strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return fmt.Errorf("%q is not 1 to %d printable ASCII characters without spaces", id, maxNodeID)
	}
	if strings.ContainsAny(id, "@=,/") {
		return fmt.Errorf("%q has one of the signs @ = , / which an id cannot have", id)
	}
	return nil
}

// validateListeners checks where the services listen and what others are told of it.
func (c *Config) validateListeners(fault faulter) {
	listens := map[string]string{}
	if path, ok := strings.CutPrefix(c.AdminListen, unixPrefix); ok && !filepath.IsAbs(path) {
		fault(on("admin.listen"), "%q is not unix:/absolute/path", c.AdminListen)
	}
	for _, a := range []struct{ key, value string }{
		{"report.listen", c.ReportListen}, {"admin.listen", c.AdminListen}, {"http.listen", c.HTTPListen}, {"raft.listen", c.RaftListen},
	} {
		if a.key == "admin.listen" && strings.HasPrefix(a.value, unixPrefix) {
			continue
		}
		port, err := checkAddress(a.value, true)
		switch {
		case err != nil:
			fault(on(a.key), "%v", err)
		case port != 0 && listens[a.value] != "":
			fault(on(a.key, listens[a.value]), "%s is taken by %s; each service needs its own port", a.value, listens[a.value])
		default:
			listens[a.value] = a.key
		}
	}
	for _, a := range []struct {
		key, value, listen string
		rests              []string
	}{
		{"report.advertise", c.ReportAdvertise, c.ReportListen, on("report.advertise", "report.listen")},
		{"raft.advertise", c.RaftAdvertise, c.RaftListen, on("raft.advertise", "raft.listen", "cluster.members", "node_id")},
	} {
		if a.value != "" {
			if _, err := checkAddress(a.value, false); err != nil {
				fault(on(a.key), "%v", err)
			} else if unspecified(a.value) {
				fault(on(a.key), "%q is no address that others can reach; say how they reach this node", a.value)
			}
		} else if unspecified(a.listen) {
			fault(a.rests, "is needed because the service listens on every interface (%s); say how others reach this node", a.listen)
		}
	}
}

// validateMembers checks the member list against itself and against this node. A founding member's
// own address in the list is what it advertises.
func (c *Config) validateMembers(fault faulter) {
	if c.Join && c.ClusterID == 0 {
		fault(on("cluster.join", "cluster.id"), "needs cluster.id, so that only that cluster can take this node in; `lancemaster cluster status` shows it")
	}
	if len(c.Members) == 0 {
		return
	}
	const key = "cluster.members"
	faulty := false
	c.checkMemberList(func(format string, args ...any) {
		faulty = true
		fault(on(key), format, args...)
	})
	own, listed := c.MemberAddress(c.NodeID)
	switch {
	case !listed && !c.Join && c.Sources["node_id"] == SourceDefault:
		fault(on(key, "node_id", "cluster.join"), "does not list this node, %q: node_id is not set, and that is its default; set it to this node's name in the list", c.NodeID)
	case !listed && !c.Join:
		fault(on(key, "node_id", "cluster.join"), "does not list this node, %q; list it, or set cluster.join to join the others later", c.NodeID)
	case faulty: // what follows would follow from that
		return
	case listed && c.RaftAdvertise == "":
		c.RaftAdvertise = own
	case listed && c.RaftAdvertise != own:
		fault(on("raft.advertise", key, "node_id"), "%s is not this node's address in cluster.members, %s; leave one of the two out", c.RaftAdvertise, own)
	}
	if c.RaftAdvertise != "" && !Loopback(c.RaftAdvertise) && Loopback(c.RaftListen) {
		fault(on("raft.listen", "raft.advertise", key, "node_id"), "%s is reached from this machine only, but others are told %s; listen on an address that they can reach, such as 0.0.0.0:9010", c.RaftListen, c.RaftAdvertise)
	}
}

// checkMemberList checks the list by itself.
func (c *Config) checkMemberList(fault func(format string, args ...any)) {
	ids, addresses, loopback, unclear := map[string]bool{}, map[string]bool{}, 0, false
	for _, m := range c.Members {
		if err := CheckNodeID(m.ID); err != nil {
			fault("%v", err)
		}
		if _, err := checkAddress(m.Address, false); err != nil {
			unclear = true
			fault("member %s: %v", m.ID, err)
		} else if unspecified(m.Address) {
			fault("member %s: %q is no address that others can reach", m.ID, m.Address)
		}
		if ids[m.ID] {
			fault("member %s is listed twice", m.ID)
		}
		if addresses[m.Address] {
			fault("address %s is listed twice", m.Address)
		}
		ids[m.ID], addresses[m.Address] = true, true
		if Loopback(m.Address) {
			loopback++
		}
	}
	if !unclear && loopback > 0 && loopback < len(c.Members) {
		fault("some addresses are loopback addresses, which members on other machines cannot reach")
	}
}

// validateTLS checks that what each service wants of TLS is there.
func (c *Config) validateTLS(fault faulter) {
	if (c.TLSCertFile == "") != (c.TLSKeyFile == "") {
		fault(on("tls.cert_file", "tls.key_file"), "goes together with tls.key_file; set both or none")
	}
	for _, s := range []struct {
		key, mode string
		client    bool
	}{
		{"report.tls", c.ReportTLS, false}, {"admin.tls", c.AdminTLS, false}, {"http.tls", c.HTTPTLS, false},
		{"raft.tls", c.RaftTLS, false}, {"backend.tls", c.BackendTLS, true},
		{"refresh.tls", c.RefreshTLS, true},
	} {
		if s.mode == "off" {
			continue
		}
		if c.TLSCertFile == "" && (!s.client || s.mode == "mutual") {
			fault(on(s.key, "tls.cert_file", "tls.key_file"), "%s needs tls.cert_file and tls.key_file", s.mode)
		}
		if c.TLSCAFile == "" && s.mode == "mutual" && s.key != "refresh.tls" {
			fault(on(s.key, "tls.ca_file"), "mutual needs tls.ca_file, which certificates are held against")
		}
	}
	if strings.HasPrefix(c.AdminListen, unixPrefix) && c.AdminTLS != "off" {
		fault(on("admin.tls", "admin.listen"), "is %s, and a Unix socket has no use for it; its mode lets in only this node's user", c.AdminTLS)
	}
}

// validateOpen checks that nobody can act unknown on a port that other machines can reach.
func (c *Config) validateOpen(fault faulter) {
	if c.RaftTLS == "off" && !c.TrustedNetwork && !Loopback(c.RaftListen) {
		fault(on("raft.tls", "raft.listen", "raft.trusted_network"), "is off, and %s can be reached from other machines: whoever reaches it can pass for a master, and act as anybody at the admin service, whatever that asks for; set raft.tls: mutual (see `lancemaster tls`), listen on 127.0.0.1, or, where nobody but the masters can reach it, say so with raft.trusted_network: true", c.RaftListen)
	}
	if Loopback(c.AdminListen) {
		return
	}
	switch {
	case c.AdminTLS == "off":
		fault(on("admin.tls", "admin.listen"), "is off, and %s can be reached from other machines, which would hear tokens and change what they like; use TLS (see `lancemaster tls`), or listen on 127.0.0.1", c.AdminListen)
	case c.AdminTLS != "mutual" && c.AdminAuth != "required":
		fault(on("admin.auth", "admin.listen", "admin.tls"), "is none, and %s can be reached from other machines; set admin.auth: required for tokens or admin.tls: mutual for certificates, or listen on 127.0.0.1", c.AdminListen)
	}
}

// tokenText is the text of an access token, wherever it stands: 256 bits in base64url, and nothing longer,
// since a name may well begin with lm_ too.
var tokenText = regexp.MustCompile(`(?:^|[^A-Za-z0-9_-])lm_[A-Za-z0-9_-]{42}[AEIMQUYcgkosw048](?:$|[^A-Za-z0-9_-])`)

// tokenBegun is one that may have been pasted in part. It does not count in names that people choose, which
// may begin like this.
var tokenBegun = regexp.MustCompile(`^lm_[A-Za-z0-9_-]{24,}$`)

// checkNoSecret refuses a value that is a key or a token itself, where a file that holds it should be named.
// It does not repeat it, and nothing looks at it any further: it would be in errors, logs and listings.
func checkNoSecret(key, value string) error {
	chosen := key == "node_id" || key == "data_dir" || key == "cluster.members"
	if strings.Contains(value, "-----BEGIN") || tokenText.MatchString(value) || !chosen && tokenBegun.MatchString(value) {
		return errors.New("holds a key, a certificate or a token itself, which is not repeated here; put that into a file of mode 0600 and name the file, and take what was shown to others for known to them")
	}
	return nil
}

// CheckRef checks a reference to a secret without resolving it. The reference's
// text is not repeated: it may be a secret given by mistake.
func CheckRef(ref string) error {
	if p, ok := strings.CutPrefix(ref, "file:"); ok && filepath.IsAbs(p) {
		return nil
	}
	if n, ok := strings.CutPrefix(ref, "env:"); ok && n != "" && !strings.ContainsAny(n, "= \x00") {
		return nil
	}
	return errors.New("a secret is given by reference: file:/absolute/path or env:NAME, never as its value")
}

// unixPrefix begins the address of a Unix socket.
const unixPrefix = "unix:"

// Loopback reports whether a listen address is reachable from this machine only.
func Loopback(address string) bool {
	if strings.HasPrefix(address, unixPrefix) {
		return true
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

func unspecified(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "" || ip != nil && ip.IsUnspecified()
}

func checkAddress(address string, listen bool) (port int, err error) {
	host, p, err := net.SplitHostPort(address)
	if err != nil {
		return 0, fmt.Errorf("%q is not host:port", address)
	}
	if host == "" && !listen {
		return 0, fmt.Errorf("%q names no host", address)
	}
	n, err := strconv.ParseUint(p, 10, 16)
	if err != nil || n == 0 && !listen {
		return 0, fmt.Errorf("%q has no valid port", address)
	}
	return int(n), nil
}
