package job

import "fmt"

// MaxTokens bounds the access tokens of a cluster.
const MaxTokens = 256

// Role is what a caller may do. Roles are ordered: a higher one may do all that a
// lower one may.
type Role uint8

// The numbers are stored in the journal and never change. They are in the order
// of what the roles may do.
const (
	RoleRead    Role = 1 // see everything
	RoleSubmit  Role = 2 // submit jobs
	RoleOperate Role = 3 // act on jobs, backends, catalogs and settings
	RoleAdmin   Role = 4 // members, snapshots, tokens, and all else
)

var roleNames = map[Role]string{
	RoleRead: "read", RoleSubmit: "submit", RoleOperate: "operate", RoleAdmin: "admin",
}

// String returns the name that configuration and commands use.
func (r Role) String() string { return nameOf(roleNames, r) }

// Valid reports whether r is one of the four roles.
func (r Role) Valid() bool { return has(roleNames, r) }

// Includes reports whether r may do what other may. Neither a role that is none
// includes anything, nor does any role include it.
func (r Role) Includes(other Role) bool { return r.Valid() && other.Valid() && r >= other }

// ParseRole reads the name that String returns.
func ParseRole(name string) (Role, bool) { return parse(roleNames, name) }

// putToken keeps a new access token. There is no changing one: whoever holds it
// would not know.
func putToken(v View, c PutToken) (Change, *Refusal) {
	if refusal := checkName("the token's name", c.Token); refusal != nil {
		return Change{}, refusal
	}
	if c.Token == ActorSystem {
		return Change{}, invalid("a token cannot be called %q: the master acts under that name itself", ActorSystem)
	}
	if !c.Role.Valid() {
		return Change{}, invalid("a role is read, submit, operate or admin and nothing else")
	}
	if c.Hash == (Hash{}) {
		return Change{}, invalid("the token's hash is missing")
	}
	if old := v.Token(c.Token); old != nil {
		if old.Hash == c.Hash && old.Role == c.Role {
			// The answer to the first may have been lost.
			return Change{Answer: Answer{Token: old, Existing: true}}, nil
		}
		return Change{}, refuse(CodeAlreadyExists, fmt.Sprintf("there is a token %q already", printable(c.Token)),
			"choose another name, or revoke it first with: lancemaster token revoke")
	}
	tokens := v.Tokens()
	if len(tokens) >= MaxTokens {
		return Change{}, invalid("a cluster has at most %d access tokens; revoke those that nobody uses", MaxTokens)
	}
	for _, t := range tokens {
		// Whose name and role a call with it has would depend on which is found first.
		if t.Hash == c.Hash {
			return Change{}, refuse(CodeAlreadyExists, "this very token is kept under another name already",
				"make a new one")
		}
	}
	t := &Token{Name: c.Token, Role: c.Role, Hash: c.Hash, CreatedAt: c.At, CreatedBy: c.Actor}
	return Change{Token: &TokenChange{Name: t.Name, New: t}, Answer: Answer{Token: t}}, nil
}

func removeToken(v View, c RemoveToken) (Change, *Refusal) {
	old := v.Token(c.Token)
	if old == nil {
		return Change{}, refuse(CodeNotFound, fmt.Sprintf("there is no token %q", printable(c.Token)),
			"see: lancemaster token list; one in the file of a master's admin.tokens_file is none of the cluster's: take it out of that file")
	}
	return Change{Token: &TokenChange{Name: old.Name, Old: old}, Answer: Answer{Token: old}}, nil
}
