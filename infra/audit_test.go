package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/functions/catalog"
)

// TestAuditCopiesAreLocked: one function adds copies of audit digests to a
// bucket that keeps them, one more reads them, and no role deletes any.
func TestAuditCopiesAreLocked(t *testing.T) {
	t.Parallel()
	assert.Len(t, deployed(t).data.of("S3::Bucket"), 1, "none is kept unless it is configured")
	cfg := example()
	cfg.AuditLock, cfg.AuditLockMode = 365, "compliance"
	d := synth(t, cfg, catalog.All(), "code")
	buckets := d.data.of("S3::Bucket")
	at := slices.IndexFunc(buckets, func(r resource) bool { return r.id == "AuditBucket" })
	require.GreaterOrEqual(t, at, 0)
	assert.Equal(t, true, buckets[at].properties["ObjectLockEnabled"])
	assert.Contains(t, text(buckets[at].properties["ObjectLockConfiguration"]), `"Mode":"COMPLIANCE"`)
	assert.Equal(t, "RetainExceptOnCreate", buckets[at].all["DeletionPolicy"])
	name := text(buckets[at].properties["BucketName"])

	var denied []string
	for _, s := range d.data.policyStatements()["AuditBucketPolicy"] {
		assert.Equal(t, "Deny", s["Effect"])
		denied = append(denied, texts(s["Action"])...)
	}
	assert.ElementsMatch(t, []string{"s3:*", "s3:PutObject", "s3:DeleteObject"}, denied, "without TLS, over another one, hidden")

	may := map[string][]string{}
	for where, statements := range d.service.policyStatements() {
		for _, s := range statements {
			for _, on := range texts(s["Resource"]) {
				if s["Effect"] == "Allow" && strings.Contains(on, name) {
					may[where] = append(may[where], texts(s["Action"])...)
				}
			}
		}
	}
	assert.Equal(t, map[string][]string{"AuditRole": {"s3:ListBucket", "s3:GetObject"}, "AuditDigestRole": {"s3:ListBucket", "s3:GetObject", "s3:PutObject"}}, may)
	for _, f := range d.service.of("Lambda::Function") {
		environment, _ := f.properties["Environment"].(object)
		variables, _ := environment["Variables"].(object)
		assert.Equal(t, may[strings.TrimSuffix(f.id, "Function")+"Role"] != nil, variables["MILLRACE_LOCKED_BUCKET"] != nil, f.id)
	}
}
