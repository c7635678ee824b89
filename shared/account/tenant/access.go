package tenant

import (
	"slices"
	"strings"

	"millrace/shared/platform/errs"
)

type kind int

const (
	unset kind = iota // the zero Access: refuses everyone
	public
	authenticated
	sessionOnly
	superAdmin
	needs
)

// Access is what an operation asks of its caller. The zero Access refuses
// everyone.
type Access struct {
	kind  kind
	perm  Permission
	all   []string // scopes an API key needs, each of them
	anyOf []string // and one of these, if there are any
}

// The accesses that ask for no permission.
var (
	// Public operations need no credential, and look at none.
	Public = Access{kind: public}
	// Authenticated operations take every valid credential.
	Authenticated = Access{kind: authenticated}
	// SessionOnly operations take signed-in users, no API keys.
	SessionOnly = Access{kind: sessionOnly}
	// SuperAdmin operations take platform administrators.
	SuperAdmin = Access{kind: superAdmin}
)

// Needs is the access of an operation that asks for a permission. An API key
// needs the scope of the same name, unless [Access.Keys] says otherwise.
func Needs(p Permission) Access {
	if _, known := holders[p]; !known {
		panic("tenant: unknown permission " + string(p))
	}
	return Access{kind: needs, perm: p, all: []string{string(p)}}
}

// Keys says which scopes an API key needs, all of them, instead of the one of
// the permission's name.
func (a Access) Keys(scopes ...string) Access {
	a.all = checked(scopes)
	return a
}

// KeysAlso says that an API key needs one of these scopes as well.
func (a Access) KeysAlso(anyOf ...string) Access {
	a.anyOf = checked(anyOf)
	return a
}

func checked(scopes []string) []string {
	for _, s := range scopes {
		if !KnownScope(s) {
			panic("tenant: unknown scope " + s)
		}
	}
	return slices.Clone(scopes)
}

// IsZero reports whether no access was chosen.
func (a Access) IsZero() bool { return a.kind == unset }

// IsPublic reports whether no credential is needed.
func (a Access) IsPublic() bool { return a.kind == public }

// Permission is the permission asked for, empty if none is.
func (a Access) Permission() Permission { return a.perm }

// Check returns nil if the principal may pass, else an errs.Forbidden that
// names what is missing.
func (a Access) Check(p Principal) error {
	switch a.kind {
	case public:
		return nil
	case sessionOnly:
		if p.IsKey() {
			return errs.New(errs.Forbidden, "Permission denied: requires a signed-in user")
		}
		return nil
	case superAdmin:
		if p.IsKey() || !p.SuperAdmin {
			return denied("super_admin")
		}
		return nil
	case authenticated, needs:
		if p.IsKey() {
			return a.checkKey(p)
		}
		if a.kind == needs && !p.Role.Has(a.perm) {
			return denied(string(a.perm))
		}
		return nil
	}
	return errs.New(errs.Forbidden, "Permission denied")
}

func (a Access) checkKey(p Principal) error {
	for _, scope := range a.all {
		if !p.HasScope(scope) {
			return denied(scope)
		}
	}
	if len(a.anyOf) > 0 && !slices.ContainsFunc(a.anyOf, p.HasScope) {
		return denied(a.anyOf[0])
	}
	return nil
}

func denied(what string) error {
	return errs.New(errs.Forbidden, "Permission denied: requires '%s'", what)
}

// String names the access as operation tables do: public, authenticated,
// session_only, super_admin or the permission.
func (a Access) String() string {
	switch a.kind {
	case public:
		return "public"
	case authenticated:
		return "authenticated"
	case sessionOnly:
		return "session_only"
	case superAdmin:
		return "super_admin"
	case needs:
		return string(a.perm)
	}
	return "none"
}

// Scopes writes the scopes that an API key needs: joined by +, alternatives in
// parentheses joined by |; empty if it needs none.
func (a Access) Scopes() string {
	parts := slices.Clone(a.all)
	if len(a.anyOf) > 0 {
		parts = append(parts, "("+strings.Join(a.anyOf, "|")+")")
	}
	return strings.Join(parts, "+")
}
