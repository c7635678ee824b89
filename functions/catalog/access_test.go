package catalog_test

import (
	_ "embed"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/functions/catalog"
	"millrace/shared/account/tenant"
)

// accessFile and permissionsFile are the published contract, which the code is
// compared with.
var (
	//go:embed testdata/access.txt
	accessFile         string
	permissionsFile, _ = filepath.Abs("../../shared/account/tenant/testdata/permissions.txt")
)

// requirement is a line of the access file.
type requirement struct {
	method, path string
	access       string // public, authenticated, session_only, super_admin or a permission
	scopes       string // of an API key, as tenant.Access.Scopes writes them
}

// requirements returns the lines of the access file.
func requirements(t testing.TB) []requirement {
	t.Helper()
	var out []requirement
	for _, fields := range lines(accessFile) {
		require.True(t, len(fields) == 3 || len(fields) == 4, "%v", fields)
		r := requirement{method: fields[0], path: fields[1], access: fields[2]}
		switch {
		case len(fields) == 4:
			r.scopes = fields[3]
		case r.permission() != "":
			r.scopes = r.access
		}
		out = append(out, r)
	}
	return out
}

// permission returns the permission that a user needs, "" if none.
func (r requirement) permission() string {
	switch r.access {
	case "public", "authenticated", "session_only", "super_admin":
		return ""
	}
	return r.access
}

// lines returns the fields of the lines that are not blank or comments.
func lines(text string) [][]string {
	var out [][]string
	for line := range strings.Lines(text) {
		if fields := strings.Fields(line); len(fields) > 0 && fields[0] != "#" {
			out = append(out, fields)
		}
	}
	return out
}

// requirementOf returns the line of an operation. The test fails if there is
// none.
func requirementOf(t testing.TB, all []requirement, op catalog.Operation) (requirement, bool) {
	t.Helper()
	for _, r := range all {
		// Names with a version are written with a *.
		if r.method == op.Method && (r.path == op.Path || strings.Contains(r.path, "*") && matches(r.path, op.Path)) {
			return r, true
		}
	}
	assert.Fail(t, "an operation without a line", "testdata/access.txt does not tell who may call %s %s", op.Method, op.Path)
	return requirement{}, false
}

func matches(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	return ok && err == nil
}

// holders returns the roles of each permission, by the permissions file.
func holders(t testing.TB) map[string][]string {
	t.Helper()
	data, err := os.ReadFile(permissionsFile)
	require.NoError(t, err)
	out := map[string][]string{}
	for _, fields := range lines(string(data)) {
		out[fields[0]] = fields[1:]
	}
	return out
}

// TestAccessIsThatOfTheContract compares the access of each operation with the
// file. Lines of operations that do not exist are only checked for themselves.
func TestAccessIsThatOfTheContract(t *testing.T) {
	t.Parallel()
	all := requirements(t)
	for _, op := range catalog.Operations(catalog.All()) {
		if r, found := requirementOf(t, all, op); found {
			assert.Equal(t, r.access, op.Access.String(), "access of %s %s", op.Method, op.Path)
			assert.Equal(t, r.scopes, op.Access.Scopes(), "scopes for %s %s", op.Method, op.Path)
		}
	}

	permissions := holders(t)
	seen := map[string]bool{}
	for _, r := range all {
		name := r.method + " " + r.path
		assert.False(t, seen[name], "two lines for %s", name)
		seen[name] = true
		if p := r.permission(); p != "" {
			assert.Contains(t, permissions, p, name)
		}
		for scope := range strings.FieldsFuncSeq(r.scopes, func(c rune) bool { return strings.ContainsRune("+|()", c) }) {
			assert.True(t, permissions[scope] != nil || scope == tenant.ScopeAdmin, "%s: unknown scope %s", name, scope)
		}
		assert.True(t, path.IsAbs(r.path) && (r.path == "/" || !strings.HasSuffix(r.path, "/")), name)
		assert.True(t, slices.Contains([]string{"GET", "POST", "PUT", "PATCH", "DELETE"}, r.method), name)
	}
	assert.GreaterOrEqual(t, len(seen), 192, "the published operations")
}
