// Package registry stores what a workspace has registered: flows with their
// versions, deployments with their history, and environments with their
// variables. Runs read it; the functions of these things write it through a
// [Store].
//
// Layout. All keys begin with the workspace. Names never contain '#'.
//
//	<org>#flows          <flow>        Head: the latest version, and the flow's incarnation
//	<org>#flow#<flow>    v#<version>   Version
//	<org>#flow#<flow>    dep#<kind>#<id>  Dependent: prevents the deletion of the flow
//	<org>#flow#<flow>    draft         the draft being edited (function flows)
//	<org>#spec#<hash>    spec          a flow_spec by its content; over 32 KB in the object store
//	<org>#deployments    <deployment>  Deployment
//	<org>#deployment#<deployment> <%010d>  the deployment as it was at that deployment_version
//	<org>#environments  <environment>  Environment
//	<org>#environment-order  order     the order in which they are shown
//	<org>#environments-deleted  <environment>  a deleted one whose secrets are not all deleted yet
//	<org>#env#<environment>  variables        VariableSet: its variables
//	<org>#env#<environment>  dep#<kind>#<id>  Dependent: what keeps it from being deleted
//	<org>#env#<environment>  last#<shard>     the run accepted last, so that none is overlooked
//
// A flow or deployment that is created again after its deletion gets a new
// incarnation. Readers ignore items of older incarnations, so that a deletion
// is one transaction however many versions there are.
package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"millrace/shared/platform/errs"
	"millrace/shared/platform/table"
	"millrace/shared/run/tasktype"
)

// Limits of registered data.
const (
	MaxTags           = 50
	MaxTagKey         = 128       // characters of a tag's key
	MaxTagValue       = 256       // characters of a tag's value
	MaxDescription    = 4096      // characters
	MaxSlugs          = 50        // dep_package_slugs
	MaxParameterBytes = 256 << 10 // of the parameters of a run or of a deployment, as JSON
	InlineBytes       = 32 << 10  // larger specs and drafts are stored in the object store
)

// DefaultEnvironment is the environment of a deployment that does not set one.
const DefaultEnvironment = "default"

// ReservedParameter is the prefix of parameters that only the service sets.
const ReservedParameter = "__svc_"

// MaxName is the maximum length of a name in characters. A pattern that limits
// the length would take a hundred times as long to compile, which each function
// does when it starts.
const MaxName = 128

// NamePattern is the regular expression of a name, without its length.
const NamePattern = `^[A-Za-z0-9][A-Za-z0-9._-]*$`

var namePattern = regexp.MustCompile(NamePattern)

// ValidName reports whether name may be the name of a flow, version, deployment
// or environment: 1 to 128 letters, digits, '.', '_' and '-', beginning with a
// letter or digit.
func ValidName(name string) bool { return len(name) <= MaxName && namePattern.MatchString(name) }

// reserved are words that take the place of a version in a path.
var reserved = []string{"latest", "versions", "draft", "backfill"}

// ReservedVersion reports whether a version of that name could not be read,
// because its path has another meaning.
func ReservedVersion(version string) bool { return slices.Contains(reserved, version) }

// ParseExecutor checks a default_executor, which is the name of a task type.
// Empty means the first type. Errors: errs.Invalid for an unsupported runtime.
func ParseExecutor(name string) (string, error) {
	known := tasktype.Names()
	if name == "" {
		return known[0], nil
	}
	if !slices.Contains(known, name) {
		return "", errs.New(errs.Invalid, "Unsupported runtime: default_executor %.64q is not one of %s", name, strings.Join(known, ", "))
	}
	return name, nil
}

// artifactScheme begins an artifact_store_uri. The object's key follows.
const artifactScheme = "objstore://"

// ArtifactURI returns the artifact_store_uri of an artifact's key, empty for an
// empty key.
func ArtifactURI(key string) string {
	if key == "" {
		return ""
	}
	return artifactScheme + key
}

// ArtifactKey returns the key of an artifact_store_uri, or a plain key as is.
// Errors: errs.Forbidden if it is not an artifact of the workspace.
func ArtifactKey(org, uri string) (string, error) {
	key := strings.TrimPrefix(uri, artifactScheme)
	parts := strings.Split(key, "/")
	if len(parts) != 5 || parts[0] != org || parts[1] != "artifacts" || slices.Contains(parts, "..") {
		return "", errs.New(errs.Forbidden, "Artifact ownership mismatch: the artifact does not belong to this workspace")
	}
	return key, nil
}

// The 404 errors of reads and writes.

func noFlow(flow string) error {
	return errs.New(errs.NotFound, "Flow '%s' not found", flow)
}

func noVersion(flow, version string) error {
	return errs.New(errs.NotFound, "Flow '%s' has no version '%s'", flow, version)
}

// NoDeployment returns the errs.NotFound of a deployment that does not exist.
func NoDeployment(name string) error {
	return errs.New(errs.NotFound, "Deployment '%s' not found", name)
}

// load reads one item consistently and reports whether it exists.
func load[T any](ctx context.Context, t table.Table, key table.Key) (v T, found bool, err error) {
	v, err = table.Load[T](ctx, t, key, table.Consistent)
	if errors.Is(err, table.ErrNotFound) {
		return v, false, nil
	}
	if err != nil {
		return v, false, fmt.Errorf("read %s %s: %w", key.PK, key.SK, err)
	}
	return v, true, nil
}

// loadAll reads the existing items consistently, in the order of keys.
func loadAll[T any](ctx context.Context, t table.Table, keys []table.Key) ([]T, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	items, err := t.BatchGet(ctx, keys, table.Consistent)
	if err != nil {
		return nil, fmt.Errorf("read %d items: %w", len(keys), err)
	}
	return table.Decode[T](items)
}

func keysOf(items []table.Item) []table.Key {
	keys := make([]table.Key, len(items))
	for i, item := range items {
		keys[i] = item.Key()
	}
	return keys
}

// sameJSON compares two parameter sets by their bytes. Both come from a decoder
// that keeps values as they were sent.
func sameJSON(a, b map[string]json.RawMessage) bool {
	if len(a) != len(b) {
		return false
	}
	for k, v := range a {
		if w, ok := b[k]; !ok || string(v) != string(w) {
			return false
		}
	}
	return true
}
