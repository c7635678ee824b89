package manual

import (
	"strings"

	"millrace/functions/catalog"
	"millrace/shared/account/tenant"
)

var access = []table{
	{"permissions of roles", permissions},
	{"access of operations", operations},
}

func permissions(string) (string, error) {
	heads := []string{"permission"}
	for _, role := range tenant.Roles() {
		heads = append(heads, string(role))
	}
	g := newGrid(heads...)
	for _, p := range tenant.Permissions() {
		cells := []string{code(string(p))}
		for _, role := range tenant.Roles() {
			cells = append(cells, held(role.Has(p)))
		}
		g.row(cells...)
	}
	return g.String(), nil
}

func held(holds bool) string {
	if holds {
		return "yes"
	}
	return ""
}

func operations(string) (string, error) {
	g := newGrid("operation", "", "a user needs", "an API key needs")
	for _, op := range catalog.Public(catalog.Operations(catalog.All())) {
		g.row(code(op.Method+" "+op.Path), op.Summary, userNeeds(op.Access), keyNeeds(op.Access))
	}
	return g.String(), nil
}

// userNeeds tells what a signed-in user needs: the lowest role with the
// permission.
func userNeeds(a tenant.Access) string {
	switch a.String() {
	case tenant.Public.String():
		return "no credential"
	case tenant.SuperAdmin.String():
		return "to administer the platform"
	case tenant.Authenticated.String(), tenant.SessionOnly.String():
		return "to be signed in"
	}
	p := a.Permission()
	lowest := tenant.Owner
	for _, role := range tenant.Roles() { // highest first
		if role.Has(p) {
			lowest = role
		}
	}
	return code(string(p)) + ": " + string(lowest)
}

// keyNeeds tells the scopes that an API key needs.
func keyNeeds(a tenant.Access) string {
	switch a.String() {
	case tenant.Public.String():
		return "no credential"
	case tenant.SessionOnly.String(), tenant.SuperAdmin.String():
		return "not for keys"
	}
	if a.Scopes() == "" {
		return "any scope"
	}
	parts := strings.Split(a.Scopes(), "+")
	for i, part := range parts {
		alternatives := strings.Split(strings.Trim(part, "()"), "|")
		for j := range alternatives {
			alternatives[j] = code(alternatives[j])
		}
		parts[i] = strings.Join(alternatives, " or ")
	}
	return strings.Join(parts, " and ")
}
