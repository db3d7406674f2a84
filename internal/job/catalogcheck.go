package job

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// Bounds on catalogs. Those on options are the wire's.
const (
	MaxCatalogName    = 64
	MaxOptions        = 64
	MaxOptionKey      = 256
	MaxOptionValue    = 4096
	MaxFrontends      = 16
	MinRefreshTimeout = 100     // milliseconds
	MaxRefreshTimeout = 600_000 // milliseconds
)

// CheckCatalog refuses a catalog that is malformed, or that would store a secret.
// A name has 1 to 64 of the characters A-Z a-z 0-9 _ . - and begins with a letter,
// a digit or _.
func CheckCatalog(c *Catalog) *Refusal {
	if refusal := checkCatalogName(c.Name); refusal != nil {
		return refusal
	}
	if refusal := checkLine("the store identity", c.Store, MaxName); refusal != nil {
		return refusal
	}
	if hasUserinfo(c.Store) {
		return withUserinfo("the store identity")
	}
	if refusal := checkOptions(c); refusal != nil {
		return refusal
	}
	return checkRefresher(c.Refresher)
}

func checkCatalogName(s string) *Refusal {
	good := s != "" && len(s) <= MaxCatalogName && s[0] != '-' && s[0] != '.'
	for i := range len(s) {
		good = good && (isAlnum(s[i]) || strings.IndexByte("_.-", s[i]) >= 0)
	}
	if !good {
		return invalid("the catalog's name must have 1 to %d of the characters A-Z a-z 0-9 _ . -"+
			" and begin with a letter, a digit or _", MaxCatalogName)
	}
	return nil
}

func checkOptions(c *Catalog) *Refusal {
	if len(c.Options) > MaxOptions {
		return invalid("the catalog has %d storage options; at most %d are allowed", len(c.Options), MaxOptions)
	}
	seen := make(map[string]bool, len(c.Options))
	for i, o := range c.Options {
		if refusal := checkOption(o, c.Store); refusal != nil {
			return refusal
		}
		if i > 0 && c.Options[i-1].Key >= o.Key {
			return invalid("storage options are given sorted by key, each once")
		}
		// Stores read these keys in any case, so two spellings of one are two values.
		if key := lower(o.Key); seen[key] {
			return invalid("storage option %q is given in two spellings", printable(o.Key))
		}
		seen[lower(o.Key)] = true
	}
	return nil
}

func checkOption(o Option, store string) *Refusal {
	if o.Key == "" {
		return invalid("a storage option has no key")
	}
	if refusal := checkLine("a storage option's key", o.Key, MaxOptionKey); refusal != nil {
		return refusal
	}
	what := fmt.Sprintf("storage option %q", printable(o.Key))
	if (o.Value == "") == (o.Ref == "") {
		return invalid("%s needs either a value or a reference", what)
	}
	if o.Ref != "" {
		if isEndpoint(o.Key) && store == "" {
			return refuse(CodeInvalid, what+" cannot be a reference: the catalog's store identity follows from it",
				"give the endpoint as a value, or name the store")
		}
		return checkRef(what, o.Ref)
	}
	if refusal := checkLine("the value of "+what, o.Value, MaxOptionValue); refusal != nil {
		return refusal
	}
	// A switch such as skip_signature=true is no secret.
	if SecretKey(o.Key) && o.Value != "true" && o.Value != "false" {
		return refuse(CodeInvalid, what+" looks like a secret, and secrets are not stored",
			"give a reference instead: file:PATH or env:NAME, which each master resolves when it sends")
	}
	if hasUserinfo(o.Value) {
		return withUserinfo("the value of " + what)
	}
	return nil
}

func isEndpoint(key string) bool {
	for _, k := range endpointKeys {
		if lower(key) == k {
			return true
		}
	}
	return false
}

// checkRef accepts file:PATH with an absolute path, and env:NAME.
func checkRef(what, ref string) *Refusal {
	if refusal := checkLine("the reference of "+what, ref, MaxOptionValue); refusal != nil {
		return refusal
	}
	if path, ok := strings.CutPrefix(ref, "file:"); ok && strings.HasPrefix(path, "/") && len(path) > 1 {
		return nil
	}
	if name, ok := strings.CutPrefix(ref, "env:"); ok && isEnvName(name) {
		return nil
	}
	return invalid("the reference of %s must be file:PATH with an absolute path, or env:NAME", what)
}

func isEnvName(s string) bool {
	good := s != "" && (s[0] < '0' || s[0] > '9')
	for i := range len(s) {
		good = good && (isAlnum(s[i]) || s[i] == '_')
	}
	return good
}

func checkRefresher(r Refresher) *Refusal {
	if r.TimeoutMS != 0 && (r.TimeoutMS < MinRefreshTimeout || r.TimeoutMS > MaxRefreshTimeout) {
		return invalid("the refresher's timeout is %d ms; it must be 0 for the default, or between %d and %d",
			r.TimeoutMS, MinRefreshTimeout, MaxRefreshTimeout)
	}
	if r.PasswordRef != "" {
		if refusal := checkRef("the refresher's password", r.PasswordRef); refusal != nil {
			return refusal
		}
	}
	if r.CARef != "" && !strings.HasPrefix(r.CARef, "file:") {
		return invalid("the refresher's CA bundle must be file:PATH with an absolute path")
	}
	if r.CARef != "" {
		if refusal := checkRef("the refresher's CA bundle", r.CARef); refusal != nil {
			return refusal
		}
	}
	switch r.Kind {
	case RefresherNone:
		if r.URL != "" || len(r.Frontends) > 0 || r.User != "" || r.PasswordRef != "" || r.CARef != "" || r.TLS {
			return invalid("refresher none takes nothing else: http and doris do")
		}
		return nil
	case RefresherHTTP:
		return checkHTTPRefresher(r)
	case RefresherDoris:
		return checkDorisRefresher(r)
	default:
		return invalid("the refresher is none of none, http, doris")
	}
}

func checkHTTPRefresher(r Refresher) *Refusal {
	if len(r.Frontends) > 0 || r.User != "" || r.TLS {
		return invalid("refresher http takes no frontends, user or tls; its URL says all of that")
	}
	if refusal := checkLine("the refresher's URL", r.URL, MaxName); refusal != nil {
		return refusal
	}
	scheme, rest, ok := strings.Cut(r.URL, "://")
	scheme = lower(scheme)
	if !ok || scheme != "http" && scheme != "https" || strings.ContainsAny(r.URL, " #\\") {
		return invalid("the refresher's URL must be an http or https URL with a host and without a fragment")
	}
	if r.CARef != "" && scheme != "https" {
		return invalid("a CA bundle goes with an https URL only")
	}
	if hasUserinfo(r.URL) {
		return withUserinfo("the refresher's URL")
	}
	end := strings.IndexAny(rest, "/?")
	if end < 0 {
		end = len(rest)
	}
	if host := rest[:end]; !isHostPort(host, false) {
		return invalid("the refresher's URL must be an http or https URL with a host and without a fragment")
	}
	_, query, _ := strings.Cut(rest, "?")
	for _, pair := range strings.Split(query, "&") {
		if key, _, _ := strings.Cut(pair, "="); SecretKey(key) {
			return refuse(CodeInvalid, "the refresher's URL carries what looks like a secret, and secrets are not stored",
				"give a token by the password reference: file:PATH or env:NAME")
		}
	}
	return nil
}

func checkDorisRefresher(r Refresher) *Refusal {
	if r.URL != "" {
		return invalid("refresher doris takes frontends, not a URL")
	}
	if len(r.Frontends) == 0 || len(r.Frontends) > MaxFrontends {
		return invalid("refresher doris needs 1 to %d frontends", MaxFrontends)
	}
	for _, f := range r.Frontends {
		if !isHostPort(f, true) {
			return invalid("a frontend must be host:port; an IPv6 address goes in brackets")
		}
	}
	if refusal := checkName("the refresher's user", r.User); refusal != nil {
		return refusal
	}
	if r.CARef != "" && !r.TLS {
		return invalid("a CA bundle goes with tls only")
	}
	return nil
}

func withUserinfo(what string) *Refusal {
	return refuse(CodeInvalid, what+" carries a user or password, and secrets are not stored",
		"take them out, and give secrets by reference: file:PATH or env:NAME")
}

// hasUserinfo finds user@ or user:password@ in the authority of a URL.
func hasUserinfo(s string) bool {
	_, rest, ok := strings.Cut(s, "://")
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		rest = rest[:end]
	}
	return ok && strings.Contains(rest, "@")
}

// isHostPort accepts host:port, [IPv6]:port and, where the port is not needed, a
// host alone.
func isHostPort(s string, needPort bool) bool {
	host, port := s, ""
	if i := strings.LastIndexByte(s, ':'); i >= 0 && i > strings.LastIndexByte(s, ']') {
		host, port = s[:i], s[i+1:]
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			return false
		}
	}
	if needPort && port == "" {
		return false
	}
	if inner, ok := strings.CutPrefix(host, "["); ok {
		inner, closed := strings.CutSuffix(inner, "]")
		a, err := netip.ParseAddr(inner)
		return closed && err == nil && a.Is6()
	}
	return isHostName(host)
}

// MaxHost bounds a host's name, in bytes.
const MaxHost = 253

// isHostName accepts DNS names and IPv4 addresses.
func isHostName(s string) bool {
	good := s != "" && len(s) <= MaxHost && s[0] != '-' && s[0] != '.'
	for i := range len(s) {
		good = good && (isAlnum(s[i]) || strings.IndexByte("_.-", s[i]) >= 0)
	}
	return good
}

func isAlnum(b byte) bool {
	return 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || '0' <= b && b <= '9'
}
