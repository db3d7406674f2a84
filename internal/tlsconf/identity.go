package tlsconf

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Role is what a certificate's holder is.
type Role string

// The roles. The first four call the admin service, each may do what those before it may; a backend
// reports; a master is a member of the cluster.
const (
	RoleRead    Role = "read"
	RoleSubmit  Role = "submit"
	RoleOperate Role = "operate"
	RoleAdmin   Role = "admin"
	RoleBackend Role = "backend"
	RoleMaster  Role = "master"
)

// Roles lists the roles that a certificate may name.
func Roles() []Role {
	return []Role{RoleRead, RoleSubmit, RoleOperate, RoleAdmin, RoleBackend, RoleMaster}
}

// ParseRole reads a role's name.
func ParseRole(name string) (Role, error) {
	if r := Role(name); slices.Contains(Roles(), r) {
		return r, nil
	}
	return "", fmt.Errorf("%.64q is no role; the roles are %s", name, joined(Roles()))
}

func joined(roles []Role) string {
	names := make([]string, len(roles))
	for i, r := range roles {
		names[i] = string(r)
	}
	return strings.Join(names, ", ")
}

// The parts of a certificate's URIs.
const (
	uriScheme = "lancemaster"
	uriRole   = "role"
	uriNode   = "node"
)

// Bounds of names in certificates, in bytes.
const (
	maxName = 128
	maxNode = 64
)

// Peer is who holds a certificate.
type Peer struct {
	Name     string // the subject's common name
	Role     Role
	Node     string // of a master; may be empty
	NotAfter time.Time
}

// Reason says why a certificate names nobody. The values are few and fixed, fit for a metric's label.
type Reason string

// The reasons of an IdentityError.
const (
	ReasonNoCertificate Reason = "no_certificate" // none was given, or it was not verified
	ReasonNoRole        Reason = "no_role"
	ReasonSeveralRoles  Reason = "several_roles"
	ReasonUnknownRole   Reason = "unknown_role"
	ReasonWrongRole     Reason = "wrong_role"
	ReasonBadName       Reason = "bad_name"
	ReasonBadNode       Reason = "bad_node"  // no node id where one is needed, several, or another's
	ReasonExpired       Reason = "expired"   // of a connection that stands, as the next
	ReasonUntrusted     Reason = "untrusted" // its CA is trusted no longer
)

// IdentityError says that a certificate does not name a holder as it should.
type IdentityError struct {
	Reason  Reason
	Message string
}

func (e *IdentityError) Error() string { return e.Message }

func refuse(reason Reason, format string, args ...any) error {
	return &IdentityError{reason, fmt.Sprintf(format, args...)}
}

// PeerOf returns who is at the other end of a connection whose handshake is done. The error is an
// *IdentityError.
func PeerOf(state tls.ConnectionState) (Peer, error) {
	// Not PeerCertificates: those are there, and believed, also where nothing was verified.
	if len(state.VerifiedChains) == 0 || len(state.VerifiedChains[0]) == 0 {
		return Peer{}, refuse(ReasonNoCertificate, "the other side gave no certificate that was verified")
	}
	return holder(state.VerifiedChains[0][0])
}

// NodeOf returns the node id of the master at the other end of a connection. The error is an
// *IdentityError.
func NodeOf(state tls.ConnectionState) (string, error) {
	peer, err := PeerOf(state)
	if err != nil {
		return "", err
	}
	return peer.Node, peer.expect(Expect{Role: RoleMaster})
}

// holder reads who holds a certificate.
func holder(c *x509.Certificate) (Peer, error) {
	peer := Peer{Name: c.Subject.CommonName, NotAfter: c.NotAfter}
	if err := checkName(peer.Name); err != nil {
		return Peer{}, err
	}
	var roles, nodes []string
	for _, u := range c.URIs {
		if u.Scheme != uriScheme {
			continue
		}
		value, plain := uriValue(u)
		switch {
		case plain && u.Host == uriRole:
			roles = append(roles, value)
		case plain && u.Host == uriNode:
			nodes = append(nodes, value)
		default:
			return Peer{}, refuse(ReasonUnknownRole, "the certificate of %q holds the URI %.128q, which says neither a role nor a node id",
				peer.Name, u.String())
		}
	}
	switch {
	case len(roles) == 0:
		return Peer{}, refuse(ReasonNoRole, "the certificate of %q names no role; it needs one URI %s://%s/ROLE among its alternative names",
			peer.Name, uriScheme, uriRole)
	case len(roles) > 1:
		return Peer{}, refuse(ReasonSeveralRoles, "the certificate of %q names %d roles; it must name one", peer.Name, len(roles))
	}
	role, err := ParseRole(roles[0])
	if err != nil {
		return Peer{}, refuse(ReasonUnknownRole, "the certificate of %q: %v", peer.Name, err)
	}
	peer.Role = role
	return peer.withNode(nodes)
}

func (p Peer) withNode(nodes []string) (Peer, error) {
	switch {
	case len(nodes) == 0:
		return p, nil
	case len(nodes) > 1:
		return Peer{}, refuse(ReasonBadNode, "the certificate of %q names %d node ids; a master has one", p.Name, len(nodes))
	case p.Role != RoleMaster:
		return Peer{}, refuse(ReasonBadNode, "the certificate of %q has the role %s and names a node id, which only a master has", p.Name, p.Role)
	}
	p.Node = nodes[0]
	return p, checkNode(p.Node)
}

// uriValue returns what a URI of ours says; plain reports that it holds nothing else.
func uriValue(u *url.URL) (value string, plain bool) {
	value, ok := strings.CutPrefix(u.Path, "/")
	plain = ok && value != "" && u.User == nil && u.Opaque == "" && u.RawQuery == "" && !u.ForceQuery && u.Fragment == ""
	return value, plain
}

func roleURI(r Role) *url.URL {
	return &url.URL{Scheme: uriScheme, Host: uriRole, Path: "/" + string(r)}
}
func nodeURI(id string) *url.URL { return &url.URL{Scheme: uriScheme, Host: uriNode, Path: "/" + id} }

// checkName refuses names that are not fit for a history and a log.
func checkName(name string) error {
	bad := func(r rune) bool { return !unicode.IsPrint(r) }
	if name == "" || len(name) > maxName || !utf8.ValidString(name) || strings.ContainsFunc(name, bad) {
		return refuse(ReasonBadName, "the certificate's common name %.200q is not a name of 1 to %d bytes of printable text", name, maxName)
	}
	return nil
}

// checkNode holds a node id to what the configuration allows.
func checkNode(id string) error {
	if id == "" || len(id) > maxNode || strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return refuse(ReasonBadNode, "the node id %.128q is not 1 to %d printable ASCII characters without spaces", id, maxNode)
	}
	return nil
}

// Expect is what the certificate at the other end must say. Empty fields say nothing.
type Expect struct {
	Role Role
	Node string // implies RoleMaster
}

// expect holds a holder to what was expected. A master must always name its node.
func (p Peer) expect(want Expect) error {
	if want.Node != "" {
		want.Role = RoleMaster
	}
	switch {
	case want.Role != "" && p.Role != want.Role:
		return refuse(ReasonWrongRole, "the certificate of %q has the role %s where %s is needed", p.Name, p.Role, want.Role)
	case want.Role == RoleMaster && p.Node == "":
		return refuse(ReasonBadNode, "the certificate of %q is a master's and names no node; it needs one URI %s://%s/ID among its alternative names",
			p.Name, uriScheme, uriNode)
	case want.Node != "" && p.Node != want.Node:
		return refuse(ReasonBadNode, "the certificate of %q is of node %q where node %q is expected", p.Name, p.Node, want.Node)
	}
	return nil
}

// verifier checks a connection's certificate; nil where nothing is expected.
func (want Expect) verifier(optional bool) func(tls.ConnectionState) error {
	if want == (Expect{}) {
		return nil
	}
	return func(state tls.ConnectionState) error {
		if optional && len(state.PeerCertificates) == 0 {
			return nil
		}
		peer, err := PeerOf(state)
		if err != nil {
			return err
		}
		return peer.expect(want)
	}
}
