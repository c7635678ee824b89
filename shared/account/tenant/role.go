package tenant

import "slices"

// Role is a user's role in a workspace.
type Role string

// The roles, highest first.
const (
	Owner     Role = "owner"
	Admin     Role = "admin"
	Developer Role = "developer"
	Viewer    Role = "viewer"
)

// Roles returns the roles, highest first.
func Roles() []Role { return []Role{Owner, Admin, Developer, Viewer} }

// ParseRole returns the role with that name. ok is false if there is none.
func ParseRole(name string) (Role, bool) {
	r := Role(name)
	return r, r.Rank() > 0
}

// Rank orders roles: 4 for an owner down to 1 for a viewer, 0 for no role.
func (r Role) Rank() int {
	switch r {
	case Owner:
		return 4
	case Admin:
		return 3
	case Developer:
		return 2
	case Viewer:
		return 1
	}
	return 0
}

// Has reports whether the role has the permission.
func (r Role) Has(p Permission) bool {
	lowest, known := holders[p]
	return known && r.Rank() >= lowest.Rank()
}

// Permissions returns the role's permissions, sorted.
func (r Role) Permissions() []Permission {
	return slices.DeleteFunc(Permissions(), func(p Permission) bool { return !r.Has(p) })
}
