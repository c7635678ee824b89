package tenant

import (
	"slices"
	"strings"

	"millrace/shared/platform/errs"
)

type kind int

const (
	unset kind = iota // the zero Access: rejects everyone
	public
	authenticated
	sessionOnly
	superAdmin
	needs
)

// Access is the authorization that an operation requires. The zero Access
// rejects everyone.
type Access struct {
	kind  kind
	perm  Permission
	all   []string // scopes that an API key needs, all of them
	anyOf []string // and at least one of these, if any
}

// Accesses that require no permission.
var (
	// Public operations require no credential and ignore one.
	Public = Access{kind: public}
	// Authenticated operations accept every valid credential.
	Authenticated = Access{kind: authenticated}
	// SessionOnly operations accept signed-in users, but no API keys.
	SessionOnly = Access{kind: sessionOnly}
	// SuperAdmin operations accept platform administrators.
	SuperAdmin = Access{kind: superAdmin}
)

// Needs returns the Access of an operation that requires a permission. An API
// key needs the scope of the same name, unless [Access.Keys] says otherwise.
func Needs(p Permission) Access {
	if _, known := holders[p]; !known {
		panic("tenant: unknown permission " + string(p))
	}
	return Access{kind: needs, perm: p, all: []string{string(p)}}
}

// Keys sets the scopes that an API key needs, all of them, instead of the scope
// named like the permission.
func (a Access) Keys(scopes ...string) Access {
	a.all = checked(scopes)
	return a
}

// KeysAlso sets further scopes of which an API key needs at least one.
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

// IsZero reports whether no access was set.
func (a Access) IsZero() bool { return a.kind == unset }

// IsPublic reports whether no credential is required.
func (a Access) IsPublic() bool { return a.kind == public }

// Permission returns the required permission, "" if there is none.
func (a Access) Permission() Permission { return a.perm }

// Check returns nil if the principal has access, otherwise an errs.Forbidden
// that names what is missing.
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

// String returns the access as operation tables show it: public, authenticated,
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

// Scopes returns the scopes that an API key needs: joined by +, alternatives in
// parentheses and joined by |; "" if it needs none.
func (a Access) Scopes() string {
	parts := slices.Clone(a.all)
	if len(a.anyOf) > 0 {
		parts = append(parts, "("+strings.Join(a.anyOf, "|")+")")
	}
	return strings.Join(parts, "+")
}
