package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/functions/catalog"
)

// only returns the one resource of a kind.
func (t template) only(tb testing.TB, kind string) resource {
	tb.Helper()
	list := t.of(kind)
	require.Len(tb, list, 1, kind)
	return list[0]
}

// exports returns what a stack exports, by name.
func (t template) exports() map[string]string {
	out := map[string]string{}
	outputs, _ := t.json["Outputs"].(object)
	for _, v := range outputs {
		if e, is := v.(object)["Export"].(object); is {
			out[text(e["Name"])] = text(v.(object)["Value"])
		}
	}
	return out
}

// TestKeysHaveReplicasWhereBackupsAre: every key that the data needs is a
// multi-Region key with a replica of the same policy in the other region, whose
// exports a data stack there finds under the names that it has here.
func TestKeysHaveReplicasWhereBackupsAre(t *testing.T) {
	t.Parallel()
	d := deployedWithBackup(t)
	assert.Empty(t, d.data.of("KMS::Key"))
	replicas := d.recovery.of("KMS::ReplicaKey")
	keys := d.keys.of("KMS::Key")
	require.Len(t, keys, len(deployed(t).data.of("KMS::Key")))
	require.Len(t, replicas, len(keys))
	parameters := d.recovery.json["Parameters"].(object)
	for i, key := range keys {
		replica := replicas[i]
		assert.Equal(t, key.id, replica.id)
		assert.Equal(t, true, key.properties["MultiRegion"], key.id)
		assert.Equal(t, key.properties["PendingWindowInDays"], replica.properties["PendingWindowInDays"])
		assert.Equal(t, strings.ReplaceAll(text(key.properties["KeyPolicy"]), "eu-west-1", "eu-central-1"), text(replica.properties["KeyPolicy"]), key.id)
		from := strings.Trim(text(replica.properties["PrimaryKeyArn"]), "${}")
		assert.Contains(t, parameters, from)
		assert.NotContains(t, parameters[from], "Default", "make deploy passes the ARN")
	}
	assert.Contains(t, text(replicas[0].properties["KeyPolicy"]), "logs.eu-central-1.amazonaws.com")
	assert.Equal(t, d.keys.exports(), d.recovery.exports())
	before := deployed(t).data.exports()
	for name := range d.keys.exports() {
		assert.Contains(t, before, name)
		assert.NotContains(t, d.data.exports(), name)
	}
	for _, key := range deployed(t).data.of("KMS::Key") {
		assert.NotContains(t, key.properties, "MultiRegion", "the setting is fixed when a key is made")
	}
}

func TestTableIsCopiedDaily(t *testing.T) {
	t.Parallel()
	d := deployedWithBackup(t)
	const there = "arn:${AWS::Partition}:backup:eu-central-1:${AWS::AccountId}:backup-vault:millrace-acme-prod-backup"
	rules := d.data.only(t, "Backup::BackupPlan").properties["BackupPlan"].(object)["BackupPlanRule"].([]any)
	require.Len(t, rules, 1)
	rule := rules[0].(object)
	assert.Equal(t, "${BackupVault}", text(rule["TargetBackupVault"]))
	assert.GreaterOrEqual(t, number(rule["CompletionWindowMinutes"]), number(rule["StartWindowMinutes"])+60, "AWS Backup refuses less")
	copies := rule["CopyActions"].([]any)
	require.Len(t, copies, 1)
	assert.Equal(t, there, text(copies[0].(object)["DestinationBackupVaultArn"]))
	assert.EqualValues(t, copyDays, copies[0].(object)["Lifecycle"].(object)["DeleteAfterDays"])
	for _, stack := range []template{d.data, d.recovery} {
		vault := stack.only(t, "Backup::BackupVault")
		assert.Equal(t, "millrace-acme-prod-backup", vault.properties["BackupVaultName"], "one name: metrics have no region")
		assert.Equal(t, "RetainExceptOnCreate", vault.all["DeletionPolicy"])
		assert.NotEmpty(t, vault.properties["EncryptionKeyArn"])
	}
	selection := d.data.only(t, "Backup::BackupSelection").properties["BackupSelection"].(object)
	assert.Equal(t, []string{text(tableOf("millrace-acme-prod-table"))}, texts(selection["Resources"]))

	cfg := d.cfg
	cfg.Restored = "millrace-acme-prod-table-2"
	selection = synth(t, cfg, catalog.All(), "code").data.only(t, "Backup::BackupSelection").properties["BackupSelection"].(object)
	assert.Equal(t, []string{text(tableOf(cfg.Restored))}, texts(selection["Resources"]), "the table that is in use")

	var may []string
	for _, s := range d.data.policyStatements()["BackupRole"] {
		may = append(may, texts(s["Action"])...)
		if s["Sid"] == "Vaults" {
			assert.Contains(t, texts(s["Resource"]), there)
		}
	}
	for _, action := range may {
		assert.NotRegexp(t, `Delete|Update|Put|Restore`, action)
	}
}

func tableOf(name string) string {
	return "arn:${AWS::Partition}:dynamodb:${AWS::Region}:${AWS::AccountId}:table/" + name
}

func TestObjectsAreReplicated(t *testing.T) {
	t.Parallel()
	d := deployedWithBackup(t)
	from, to := d.data.only(t, "S3::Bucket"), d.recovery.only(t, "S3::Bucket")
	assert.Equal(t, from.properties["BucketName"], to.properties["BucketName"], "that of a deployment there")
	assert.Equal(t, from.properties["LifecycleConfiguration"], to.properties["LifecycleConfiguration"], "expiry by a rule is not replicated")
	assert.Equal(t, object{"Status": "Enabled"}, to.properties["VersioningConfiguration"])
	rules := from.properties["ReplicationConfiguration"].(object)["Rules"].([]any)
	require.Len(t, rules, 1)
	rule := rules[0].(object)
	assert.Equal(t, object{"Status": "Enabled"}, rule["DeleteMarkerReplication"], "what retention removes")
	assert.Equal(t, object{"SseKmsEncryptedObjects": object{"Status": "Enabled"}}, rule["SourceSelectionCriteria"], "all are encrypted")
	destination := rule["Destination"].(object)
	assert.Equal(t, "arn:${AWS::Partition}:s3:::millrace-acme-prod-${AWS::AccountId}-eu-central-1", text(destination["Bucket"]))
	key := text(destination["EncryptionConfiguration"].(object)["ReplicaKmsKeyID"])
	assert.Contains(t, key, "arn:${AWS::Partition}:kms:eu-central-1:${AWS::AccountId}:key/")
	assert.Contains(t, key, "millrace-acme-prod-key-arn", "with the ID of the key here")
	assert.NotContains(t, to.properties, "ReplicationConfiguration")
	assert.NotContains(t, deployed(t).data.only(t, "S3::Bucket").properties, "ReplicationConfiguration")
}

func TestMissingBackupsAreTold(t *testing.T) {
	t.Parallel()
	d := deployedWithBackup(t)
	for _, name := range []string{"NumberOfBackupJobsFailed", "NumberOfBackupJobsAborted", "NumberOfBackupJobsExpired", "NumberOfCopyJobsFailed", "NumberOfCopyJobsCompleted"} {
		assert.True(t, d.watched("AWS/Backup", name, "BackupVaultName", "millrace-acme-prod-backup"), name)
	}
	missing, found := d.operations.named("CloudWatch::Alarm", "AlarmName", "millrace-acme-prod-BackupMissing")
	require.True(t, found)
	assert.Equal(t, "breaching", missing.properties["TreatMissingData"])
	assert.Equal(t, "LessThanThreshold", missing.properties["ComparisonOperator"])
	assert.LessOrEqual(t, number(missing.properties["Period"])*number(missing.properties["EvaluationPeriods"]), 7*86400.0, "CloudWatch refuses more")
	lag, found := d.operations.named("CloudWatch::Alarm", "AlarmName", "millrace-acme-prod-ReplicationLags")
	require.True(t, found)
	assert.Contains(t, text(lag.properties["Dimensions"]), `{"Fn::Sub":"millrace-acme-prod-${AWS::AccountId}-eu-central-1"}`)
	assert.NotContains(t, deployed(t).operations.golden(t), "Backup")
}

// TestRecoveredDeploymentTakesWhatIsThere synthesizes the deployment in the other
// region: it makes neither keys nor bucket, and imports only what it makes itself
// or the recovery stack there exports.
func TestRecoveredDeploymentTakesWhatIsThere(t *testing.T) {
	t.Parallel()
	lost := deployedWithBackup(t)
	cfg := Config{Tenant: "acme", Region: "eu-central-1", Stage: "prod", RecoveredFrom: "eu-west-1", Restored: "millrace-acme-prod-table-2"}
	d := synth(t, cfg, catalog.All(), "code")
	for _, kind := range []string{"KMS::Key", "KMS::Alias", "S3::Bucket", "S3::BucketPolicy", "Backup::BackupPlan"} {
		assert.Empty(t, d.data.of(kind), kind)
	}
	exported := lost.recovery.exports()
	for name, stack := range d.templates() {
		for other := range stack.exports() {
			assert.NotContains(t, exported, other, "%s exports it, too", name)
		}
	}
	for name := range d.data.exports() {
		exported[name] = ""
	}
	for name, stack := range d.templates() {
		for _, imports := range importsOf(stack.json) {
			assert.Contains(t, exported, imports, name)
		}
	}
	assert.Empty(t, dependents(d.data, "Table"))
	vaults := d.service.golden(t)
	assert.Contains(t, vaults, `"MILLRACE_TABLE": "millrace-acme-prod-table-2"`)

	a := account{}
	require.Empty(t, a.create(t, lost.recovery, ""))
	assert.Empty(t, a.create(t, d.data, ""), "beside the recovery stack")
}

// importsOf returns the names of the exports that a template imports.
func importsOf(v any) (names []string) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			names = append(names, importsOf(e)...)
		}
	case object:
		if name, is := v["Fn::ImportValue"]; is {
			return []string{text(name)}
		}
		for _, e := range v {
			names = append(names, importsOf(e)...)
		}
	}
	return names
}

func TestBackupStacksAreProtected(t *testing.T) {
	t.Parallel()
	d := deployedWithBackup(t)
	for name, want := range map[string]bool{"keys": true, "data": true, "recovery": true, "service": false, "operations": false} {
		assert.Equal(t, want, d.templates()[name].protected, name)
	}
	for _, name := range []string{"keys", "recovery"} {
		for _, r := range d.templates()[name].resources {
			switch r.kind {
			case "AWS::KMS::Key", "AWS::KMS::ReplicaKey", "AWS::S3::Bucket", "AWS::Backup::BackupVault":
				assert.Equal(t, "RetainExceptOnCreate", r.all["DeletionPolicy"], r.id)
			}
		}
	}
}
