package artifacts

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"millrace/shared/account/quota"
	"millrace/shared/account/tenant"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/ids"
	"millrace/shared/platform/table"
	"millrace/shared/run/registry"
)

// States of an upload. All but open are final.
const (
	open      = "OPEN"
	completed = "COMPLETED"
	aborted   = "ABORTED"
	rejected  = "REFUSED"
)

// retention is how long an upload's record is kept after its last change.
const retention = 30 * 24 * time.Hour

// upload is an upload, at <org>#uploads, k#<ulid of the artifact's key>.
type upload struct {
	table.Key
	table.ListEntries
	UploadID    string       `table:"upload_id"` // in the object store
	ArtifactKey string       `table:"artifact_key"`
	FlowName    string       `table:"flow_name"`
	FlowVersion string       `table:"flow_version"`
	SizeBytes   int64        `table:"size_bytes"`
	FileName    string       `table:"file_name,omitempty"`
	State       string       `table:"state"`
	Expires     clock.Millis `table:"expires"`           // of the URLs
	Request     string       `table:"request,omitempty"` // digest of the request that completed it
	Answer      string       `table:"answer,omitempty"`  // JSON of the completion's response
	Reason      string       `table:"reason,omitempty"`  // why it was rejected
	CreatedAt   clock.Millis `table:"created_at"`
	CreatedBy   string       `table:"created_by"`
	TTL         int64        `table:"ttl,omitempty"`
}

// current refers to the newest upload of a flow version, at <org>#uploads,
// v#<flow>#<version>.
type current struct {
	table.Key
	ArtifactKey string `table:"artifact_key"`
	TTL         int64  `table:"ttl"`
}

// The list of a workspace's artifacts: open uploads, and those that a version
// was registered with. Sort keys contain the size.
func artifactList(org string) string { return org + "#artifacts" }

const (
	openList = "open#"
	keptList = "kept#"
)

// listKey returns the upload's sort key in the list.
func (u *upload) listKey(list string) string {
	return fmt.Sprintf("%s%s#%d", list, strings.TrimPrefix(u.SK, "k#"), u.SizeBytes)
}

// reserve reserves quota for one more upload. Errors: errs.TooMany.
func (s *service) reserve(ctx context.Context, size int64) error {
	org := tenant.From(ctx).OrgID
	all := func(ctx context.Context, list string, take func(id string, size int64)) error {
		q := table.Query{Index: table.ByList, PK: artifactList(org), Range: table.Prefix(list)}
		for item, err := range table.All(ctx, s.store.Table, q) {
			if err != nil {
				return fmt.Errorf("count artifacts: %w", err)
			}
			entry, _ := item.Entry(table.ByList)
			id, text, _ := strings.Cut(strings.TrimPrefix(entry.SK, list), "#")
			size, _ := strconv.ParseInt(text, 10, 64) // see listKey
			take(id, size)
		}
		return nil
	}
	uploads := func(ctx context.Context) (n int64, err error) {
		oldest := s.store.Clock.Now().Add(-validity)
		err = all(ctx, openList, func(id string, _ int64) {
			if at, ok := ids.Time(id); ok && at.After(oldest) { // otherwise its URLs have expired
				n++
			}
		})
		return n, err
	}
	bytes := func(ctx context.Context) (sum int64, err error) {
		for _, list := range []string{openList, keptList} {
			err = errors.Join(err, all(ctx, list, func(_ string, size int64) { sum += size }))
		}
		return sum, err
	}
	if err := s.store.Quota.Take(ctx, quota.OpenUploads, org, 1, uploads); err != nil {
		return err
	}
	return s.store.Quota.Take(ctx, quota.ArtifactBytes, org, size, bytes)
}

// summary returns the upload as audit entries show it.
func (u *upload) summary() map[string]any {
	return map[string]any{
		"artifact_key": u.ArtifactKey, "flow_name": u.FlowName, "flow_version": u.FlowVersion,
		"size_bytes": u.SizeBytes, "file_name": u.FileName, "state": u.State,
	}
}

func uploadKey(org, artifactKey string) table.Key {
	id := artifactKey[strings.LastIndexByte(artifactKey, '/')+1:]
	return table.Key{PK: org + "#uploads", SK: "k#" + strings.TrimSuffix(id, ".zip")}
}

func currentKey(org, flow, version string) table.Key {
	return table.Key{PK: org + "#uploads", SK: "v#" + flow + "#" + version}
}

// is returns the condition that the upload is in a state.
func is(state string) table.Cond { return table.Eq("state", state) }

// to returns the write that ends an open upload.
func (u *upload) to(state string, now time.Time, also ...table.Action) table.Update {
	return table.Update{Key: u.Key, If: is(open), Do: append([]table.Action{
		table.Set("state", state), table.Set(table.TTLAttribute, now.Add(retention).Unix()),
		table.Remove("l1_pk"), table.Remove("l1_sk"),
	}, also...)}
}

// keep returns the write that completes an upload whose artifact is used: its
// record does not expire.
func (u *upload) keep(also ...table.Action) table.Update {
	return table.Update{Key: u.Key, If: is(open), Do: append([]table.Action{
		table.Set("state", completed), table.Remove(table.TTLAttribute),
		table.Set("l1_pk", artifactList(u.org())), table.Set("l1_sk", u.listKey(keptList)),
	}, also...)}
}

// org returns the workspace of the upload.
func (u *upload) org() string {
	org, _, _ := strings.Cut(u.ArtifactKey, "/")
	return org
}

// owned reads the upload named by a caller. Errors: errs.Forbidden if the
// artifact belongs to another workspace or the identifiers do not match;
// errs.NotFound if there is no such upload.
func (s *service) owned(ctx context.Context, uploadID, artifactKey string) (upload, error) {
	key, err := registry.ArtifactKey(tenant.From(ctx).OrgID, artifactKey)
	if err != nil {
		return upload{}, err
	}
	u, found, err := s.load(ctx, key)
	switch {
	case err != nil:
		return upload{}, err
	case !found || u.ArtifactKey != key:
		return upload{}, errs.New(errs.NotFound, "There is no upload of this artifact")
	case u.UploadID != uploadID:
		return upload{}, errs.New(errs.Forbidden, "Artifact ownership mismatch: the upload_id is not that of the artifact")
	}
	return u, nil
}

// load reads an upload by its artifact.
func (s *service) load(ctx context.Context, artifactKey string) (upload, bool, error) {
	u, err := table.Load[upload](ctx, s.store.Table, uploadKey(tenant.From(ctx).OrgID, artifactKey), table.Consistent)
	if errors.Is(err, table.ErrNotFound) {
		return upload{}, false, nil
	}
	if err != nil {
		return upload{}, false, fmt.Errorf("read upload: %w", err)
	}
	return u, true, nil
}

// newest returns the newest upload of a flow version, in any state, and the key
// of its artifact. Both are empty if there is none.
func (s *service) newest(ctx context.Context, flow, version string) (u upload, artifact string, err error) {
	c, err := table.Load[current](ctx, s.store.Table, currentKey(tenant.From(ctx).OrgID, flow, version), table.Consistent)
	if errors.Is(err, table.ErrNotFound) {
		return upload{}, "", nil
	}
	if err != nil {
		return upload{}, "", fmt.Errorf("read upload: %w", err)
	}
	u, _, err = s.load(ctx, c.ArtifactKey)
	return u, c.ArtifactKey, err
}
