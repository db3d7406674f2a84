package config

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"
)

// Validate checks what a single key cannot: addresses, references, and keys that
// must fit each other. Start and every reload use it.
func (c *Config) Validate() error {
	var faults []error
	fault := func(key, format string, args ...any) {
		faults = append(faults, fmt.Errorf("%s: %s", key, fmt.Sprintf(format, args...)))
	}
	if c.NodeID == "" || len(c.NodeID) > 64 || strings.ContainsFunc(c.NodeID, func(r rune) bool { return r <= ' ' || r > '~' }) {
		fault("node_id", "%q is not 1 to 64 printable ASCII characters without spaces", c.NodeID)
	}
	if c.DataDir == "" {
		fault("data_dir", "is empty; name a directory that only this node uses")
	}
	listens := map[string]string{}
	for _, a := range []struct{ key, value string }{
		{"report.listen", c.ReportListen}, {"admin.listen", c.AdminListen}, {"http.listen", c.HTTPListen}, {"raft.listen", c.RaftListen},
	} {
		port, err := checkAddress(a.value, true)
		switch {
		case err != nil:
			fault(a.key, "%v", err)
		case port != 0 && listens[a.value] != "":
			fault(a.key, "%s is taken by %s; each service needs its own port", a.value, listens[a.value])
		default:
			listens[a.value] = a.key
		}
	}
	for _, a := range []struct{ key, value, listen string }{
		{"report.advertise", c.ReportAdvertise, c.ReportListen}, {"raft.advertise", c.RaftAdvertise, c.RaftListen},
	} {
		if a.value != "" {
			if _, err := checkAddress(a.value, false); err != nil {
				fault(a.key, "%v", err)
			}
		} else if unspecified(a.listen) {
			fault(a.key, "is needed because the service listens on every interface (%s); say how others reach this node", a.listen)
		}
	}
	if err := CheckRef(c.BackendTokenRef); c.BackendTokenRef != "" && err != nil {
		fault("backend.token", "%v", err)
	}
	if c.LogFormat != "text" && c.LogFormat != "json" {
		fault("log.format", "%q is not text or json", c.LogFormat)
	}
	return errors.Join(faults...)
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

// Loopback reports whether a listen address is reachable from this machine only.
func Loopback(address string) bool {
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
