package main

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/functions/catalog"
	"millrace/shared/run/tier"
)

func TestDataIsEncryptedKeptAndRecoverable(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d deployment) {
		key, keys := "${Key.Arn}", d.data
		if d.cfg.keysApart() {
			key, keys = "${import millrace-acme-prod-key-arn}", d.keys
		}
		table := d.data.of("DynamoDB::Table")[0].properties
		sse := table["SSESpecification"].(object)
		assert.Equal(t, []any{true, "KMS", key}, []any{sse["SSEEnabled"], sse["SSEType"], text(sse["KMSMasterKeyId"])})
		assert.Equal(t, object{"PointInTimeRecoveryEnabled": true, "RecoveryPeriodInDays": 35.0}, table["PointInTimeRecoverySpecification"])
		assert.Equal(t, []any{true, "PAY_PER_REQUEST"}, []any{table["DeletionProtectionEnabled"], table["BillingMode"]})
		assert.Equal(t, object{"AttributeName": "ttl", "Enabled": true}, table["TimeToLiveSpecification"])
		assert.Len(t, table["GlobalSecondaryIndexes"], 5)
		assert.Equal(t, true, keys.of("KMS::Key")[0].properties["EnableKeyRotation"])

		bucket := d.data.of("S3::Bucket")[0].properties
		assert.Equal(t, object{"Status": "Enabled"}, bucket["VersioningConfiguration"])
		assert.Equal(t, object{"BlockPublicAcls": true, "BlockPublicPolicy": true, "IgnorePublicAcls": true, "RestrictPublicBuckets": true}, bucket["PublicAccessBlockConfiguration"])
		assert.Contains(t, text(bucket["BucketEncryption"]), `"SSEAlgorithm":"aws:kms"`)
		assert.Contains(t, text(bucket["LifecycleConfiguration"]), `AbortIncompleteMultipartUpload`)
		tls := 0
		for _, template := range d.templates() {
			for _, statements := range template.policyStatements() {
				for _, s := range statements {
					if s["Sid"] == "OnlyTLS" {
						tls++
						assert.Equal(t, object{"Bool": object{"aws:SecureTransport": "false"}}, s["Condition"])
					}
				}
			}
		}
		assert.Equal(t, len(d.data.of("SQS::Queue"))+2+len(d.recovery.of("S3::Bucket")), tls, "queues, buckets and topic")

		for _, q := range d.data.of("SQS::Queue") {
			assert.Equal(t, key, text(q.properties["KmsMasterKeyId"]), q.id)
		}
		for _, s := range d.data.of("SecretsManager::Secret") {
			assert.Equal(t, key, text(s.properties["KmsKeyId"]), s.id)
		}
		for _, g := range d.service.of("Logs::LogGroup") {
			assert.Equal(t, "${import millrace-acme-prod-key-arn}", text(g.properties["KmsKeyId"]), g.id)
			assert.NotZero(t, g.properties["RetentionInDays"], g.id)
		}
	})
}

func TestFunctionsUseRestoredTable(t *testing.T) {
	t.Parallel()
	cfg := example()
	cfg.Restored = "millrace-acme-prod-table-2"
	d := synth(t, cfg, catalog.All(), "code")
	assert.Equal(t, deployed(t).data.json, d.data.json, "the data stack does not change")
	for name, template := range map[string]template{"service": d.service, "operations": d.operations} {
		assert.Contains(t, template.golden(t), "millrace-acme-prod-table-2", name)
		assert.NotRegexp(t, `millrace-acme-prod-table["/]`, template.golden(t), name)
	}
}

func TestAllStagesButDevAreProtected(t *testing.T) {
	t.Parallel()
	stateful := []string{"DynamoDB::Table", "S3::Bucket", "KMS::Key", "SQS::Queue", "SecretsManager::Secret", "Events::EventBus", "Cognito::UserPool"}
	replaced := map[string]string{"RetainExceptOnCreate": "Retain", "Delete": "Delete"}
	for stage, want := range map[string]string{"prod": "RetainExceptOnCreate", "staging": "RetainExceptOnCreate", "dev": "Delete"} {
		cfg := example()
		cfg.Stage = stage
		d := synth(t, cfg, catalog.All(), "code")
		for name, template := range d.templates() {
			assert.Equal(t, stage != "dev" && name == "data", template.protected, "%s of %s", name, stage)
		}
		for _, kind := range stateful {
			require.NotEmpty(t, d.data.of(kind))
			for _, r := range d.data.of(kind) {
				assert.Equal(t, []any{want, replaced[want]}, []any{r.all["DeletionPolicy"], r.all["UpdateReplacePolicy"]}, "%s of %s", r.id, stage)
			}
		}
		assert.Equal(t, stage != "dev", d.data.of("DynamoDB::Table")[0].properties["DeletionProtectionEnabled"])
	}
}

func TestEveryResourceIsTaggedAndNamedAfterItsDeployment(t *testing.T) {
	t.Parallel()
	cfg := example()
	cfg.Tenant, cfg.Region, cfg.Stage = "globex", "us-east-1", "staging"
	d := synth(t, cfg, catalog.All(), "code")
	for name, template := range d.templates() {
		assert.NotContains(t, template.golden(t), "acme", name)
		assert.NotContains(t, template.golden(t), "eu-west-1", name)
		for _, r := range template.resources {
			if tags, tagged := r.properties["Tags"].([]any); tagged {
				assert.Contains(t, tags, object{"Key": "millrace:tenant", "Value": "globex"}, r.id)
			}
		}
	}
	names := map[string]bool{}
	for _, f := range d.service.of("Lambda::Function") {
		name := text(f.properties["FunctionName"])
		assert.True(t, strings.HasPrefix(name, "millrace-globex-staging-") && len(name) <= 64, name)
		names[name] = true
	}
	assert.Len(t, slices.Collect(maps.Keys(names)), len(d.specs)+len(tier.All()))
}
