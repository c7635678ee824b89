package main

import (
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsbackup"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awss3"
	"github.com/aws/jsii-runtime-go"
)

// The backup of the table: once a day, and copied to the other region at once.
const (
	backupSchedule  = "cron(0 3 * * ? *)" // UTC
	backupStart     = 60                  // minutes in which it has to start
	backupEnd       = 720                 // minutes in which it has to end
	backupDays      = 2                   // that it is kept here, where the table has point-in-time recovery
	copyDays        = 14                  // that its copy is kept
	replicationLag  = 3600                // seconds; an alarm
	replicationRule = "recovery"
)

// there returns an ARN in the backup's region.
func (c Config) there(service, resource string) *string {
	return awscdk.Fn_Sub(jsii.String("arn:${AWS::Partition}:"+service+":"+c.BackupRegion+":${AWS::AccountId}:"+resource), nil)
}

// replicaARN returns the ARN of the key's replica: a multi-Region key has the same
// ID in each region.
func (c Config) replicaARN() *string {
	id := awscdk.Fn_Select(jsii.Number(1), awscdk.Fn_Split(jsii.String("/"), c.imported(keyARN), nil))
	return awscdk.Fn_Join(jsii.String(""), &[]*string{c.there("kms", "key/"), id})
}

// copiesARN returns the ARN of the bucket with the replicas of objects, or of the
// objects in it. It has the name of the bucket of a deployment in that region.
func (c Config) copiesARN(keys string) *string {
	return awscdk.Fn_Sub(jsii.String("arn:${AWS::Partition}:s3:::"+c.prefix()+"${AWS::AccountId}-"+c.BackupRegion+keys), nil)
}

// usesKeys lets a service's role use keys for backups: to read and write, and to
// pass them to the services that store the data.
func usesKeys(arns ...*string) []statement {
	return []statement{
		{id: "Keys", actions: []string{"kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey", "kms:ReEncryptFrom", "kms:ReEncryptTo"}, resources: arns},
		{
			id: "Grants", actions: []string{"kms:CreateGrant"}, resources: arns,
			when: map[string]any{"Bool": map[string]any{"kms:GrantIsForAWSResource": "true"}},
		},
	}
}

// vaultName is the name of the backup vaults, the same one in both regions: the
// metrics of copies have it as their only dimension.
func (c Config) vaultName() string { return c.name("backup") }

func addVault(stack awscdk.Stack, cfg Config, key *string) awsbackup.CfnBackupVault {
	vault := awsbackup.NewCfnBackupVault(stack, jsii.String("BackupVault"), &awsbackup.CfnBackupVaultProps{
		BackupVaultName: jsii.String(cfg.vaultName()), EncryptionKeyArn: key,
	})
	cfg.keep(vault)
	return vault
}

// addBackup adds the plan that backs the table up and copies it to the vault of
// the recovery stack.
func addBackup(stack awscdk.Stack, cfg Config, key *string) {
	if cfg.BackupRegion == "" {
		return
	}
	vault := addVault(stack, cfg, key)
	here, there := arn("backup", "backup-vault:"+cfg.vaultName()), cfg.there("backup", "backup-vault:"+cfg.vaultName())
	role := awsiam.NewCfnRole(stack, jsii.String("BackupRole"), &awsiam.CfnRoleProps{
		Description:              jsii.String("Lets AWS Backup read the table, and copy its backups"),
		AssumeRolePolicyDocument: trusts("backup"),
		Policies: []any{&awsiam.CfnRole_PolicyProperty{PolicyName: jsii.String("needs"), PolicyDocument: document(append([]statement{
			{id: "Table", actions: []string{"dynamodb:DescribeTable", "dynamodb:ListTagsOfResource", "dynamodb:StartAwsBackupJob"}, resources: []*string{cfg.tableARN()}},
			{id: "Vaults", actions: []string{"backup:CopyIntoBackupVault", "backup:DescribeBackupVault"}, resources: []*string{here, there}},
			{id: "Copy", actions: []string{"backup:CopyFromBackupVault"}, resources: []*string{here, arn("backup", "recovery-point:*")}},
		}, usesKeys(key, cfg.replicaARN())...)...)}},
	})
	days := func(n float64) any {
		return &awsbackup.CfnBackupPlan_LifecycleResourceTypeProperty{DeleteAfterDays: jsii.Number(n)}
	}
	plan := awsbackup.NewCfnBackupPlan(stack, jsii.String("BackupPlan"), &awsbackup.CfnBackupPlanProps{
		BackupPlan: &awsbackup.CfnBackupPlan_BackupPlanResourceTypeProperty{
			BackupPlanName: jsii.String(cfg.vaultName()),
			BackupPlanRule: []any{&awsbackup.CfnBackupPlan_BackupRuleResourceTypeProperty{
				RuleName: jsii.String("daily"), TargetBackupVault: vault.Ref(), ScheduleExpression: jsii.String(backupSchedule),
				StartWindowMinutes: jsii.Number(backupStart), CompletionWindowMinutes: jsii.Number(backupEnd), Lifecycle: days(backupDays),
				CopyActions: []any{&awsbackup.CfnBackupPlan_CopyActionResourceTypeProperty{
					DestinationBackupVaultArn: there, Lifecycle: days(copyDays),
				}},
			}},
		},
	})
	awsbackup.NewCfnBackupSelection(stack, jsii.String("BackupSelection"), &awsbackup.CfnBackupSelectionProps{
		BackupPlanId: plan.Ref(),
		BackupSelection: &awsbackup.CfnBackupSelection_BackupSelectionResourceTypeProperty{
			SelectionName: jsii.String("table"), IamRoleArn: role.AttrArn(), Resources: &[]*string{cfg.tableARN()},
		},
	})
}

// replicate replicates the objects of the bucket to that of the recovery stack,
// deletions too: what retention removes here must not stay there. Versions protect
// against accidents in both.
func replicate(stack awscdk.Stack, cfg Config, bucket awss3.CfnBucket) {
	if cfg.BackupRegion == "" {
		return
	}
	via := func(id, action, region string, key *string) statement {
		return statement{
			id: id, actions: []string{action}, resources: []*string{key},
			when: map[string]any{"StringEquals": map[string]any{"kms:ViaService": "s3." + region + ".amazonaws.com"}},
		}
	}
	role := awsiam.NewCfnRole(stack, jsii.String("ReplicationRole"), &awsiam.CfnRoleProps{
		Description:              jsii.String("Lets S3 replicate the objects to " + cfg.BackupRegion),
		AssumeRolePolicyDocument: trusts("s3"),
		Policies: []any{&awsiam.CfnRole_PolicyProperty{PolicyName: jsii.String("needs"), PolicyDocument: document(
			statement{id: "Bucket", actions: []string{"s3:GetReplicationConfiguration", "s3:ListBucket"}, resources: []*string{cfg.bucketARN()}},
			statement{
				id: "Read", resources: []*string{cfg.bucketARN("*")},
				actions: []string{"s3:GetObjectVersionAcl", "s3:GetObjectVersionForReplication", "s3:GetObjectVersionTagging"},
			},
			statement{id: "Replicate", actions: []string{"s3:ReplicateDelete", "s3:ReplicateObject", "s3:ReplicateTags"}, resources: []*string{cfg.copiesARN("/*")}},
			via("Decrypt", "kms:Decrypt", cfg.Region, cfg.imported(keyARN)),
			via("Encrypt", "kms:GenerateDataKey", cfg.BackupRegion, cfg.replicaARN()),
			via("EncryptEach", "kms:Encrypt", cfg.BackupRegion, cfg.replicaARN()),
		)}},
	})
	enabled := jsii.String("Enabled")
	bucket.SetReplicationConfiguration(&awss3.CfnBucket_ReplicationConfigurationProperty{
		Role: role.AttrArn(),
		Rules: []any{&awss3.CfnBucket_ReplicationRuleProperty{
			Id: jsii.String(replicationRule), Status: enabled, Priority: jsii.Number(1),
			Filter:                  &awss3.CfnBucket_ReplicationRuleFilterProperty{Prefix: jsii.String("")},
			DeleteMarkerReplication: &awss3.CfnBucket_DeleteMarkerReplicationProperty{Status: enabled},
			SourceSelectionCriteria: &awss3.CfnBucket_SourceSelectionCriteriaProperty{
				SseKmsEncryptedObjects: &awss3.CfnBucket_SseKmsEncryptedObjectsProperty{Status: enabled},
			},
			Destination: &awss3.CfnBucket_ReplicationDestinationProperty{
				Bucket:                  cfg.copiesARN(""),
				EncryptionConfiguration: &awss3.CfnBucket_EncryptionConfigurationProperty{ReplicaKmsKeyId: cfg.replicaARN()},
				Metrics:                 &awss3.CfnBucket_MetricsProperty{Status: enabled},
			},
		}},
	})
}

// backupAlarms returns the alarms of the backup in the other region.
func backupAlarms(cfg Config) []alarm {
	if cfg.BackupRegion == "" {
		return nil
	}
	jobs := func(name string) metric {
		return metric{"AWS/Backup", name, "Sum", [][2]string{{"BackupVaultName", cfg.vaultName()}}}
	}
	objects := func(name, statistic string) metric {
		bucket := cfg.prefix() + "${AWS::AccountId}-"
		return metric{"AWS/S3", name, statistic, [][2]string{
			{"SourceBucket", bucket + cfg.Region}, {"DestinationBucket", bucket + cfg.BackupRegion}, {"RuleId", replicationRule},
		}}
	}
	return []alarm{
		{
			id: "BackupFails", doc: "A backup of the table, or its copy to " + cfg.BackupRegion + ", failed.", threshold: 1, period: time.Hour,
			expression: "FILL(failed, 0) + FILL(aborted, 0) + FILL(expired, 0) + FILL(uncopied, 0)",
			terms: map[string]metric{
				"failed": jobs("NumberOfBackupJobsFailed"), "aborted": jobs("NumberOfBackupJobsAborted"),
				"expired": jobs("NumberOfBackupJobsExpired"), "uncopied": jobs("NumberOfCopyJobsFailed"),
			},
		},
		{
			id: "BackupMissing", doc: "For two days no backup of the table was copied to " + cfg.BackupRegion + ".",
			metric: jobs("NumberOfCopyJobsCompleted"), threshold: 1, period: 24 * time.Hour, periods: 2, missing: true,
		},
		{
			id: "ReplicationFails", doc: "Objects cannot be replicated to " + cfg.BackupRegion + ".",
			metric: objects("OperationsFailedReplication", "Sum"), threshold: 1,
		},
		{
			id: "ReplicationLags", doc: "Objects are replicated to " + cfg.BackupRegion + " an hour late.",
			metric: objects("ReplicationLatency", "Maximum"), threshold: replicationLag, periods: 3,
		},
	}
}
