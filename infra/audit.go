package main

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awss3"
	"github.com/aws/jsii-runtime-go"

	"millrace/shared/account/audit"
	"millrace/shared/web/fn"
)

// The modes of Object Lock, as the context names them. In the mode compliance
// nobody deletes an object before its time, not even the account's root; in the
// mode governance those who have s3:BypassGovernanceRetention can.
var lockModes = map[string]string{"governance": "GOVERNANCE", "compliance": "COMPLIANCE"}

// lockedName is the name of the bucket of locked copies. It is short because
// names of buckets have at most 63 characters.
func (c Config) lockedName() *string {
	return awscdk.Fn_Sub(jsii.String(c.prefix()+"${AWS::AccountId}-${AWS::Region}-a"), nil)
}

// lockedARN returns the ARN of that bucket, or of its objects below a pattern.
func (c Config) lockedARN(keys string) *string {
	return awscdk.Fn_Sub(jsii.String("arn:${AWS::Partition}:s3:::"+c.prefix()+"${AWS::AccountId}-${AWS::Region}-a"+keys), nil)
}

// addLockedBucket adds the bucket of the copies of audit digests: versioned, as
// Object Lock requires, each version retained for the configured days. Its
// policy refuses to put a version over another one and to hide one, whoever
// asks.
func addLockedBucket(stack awscdk.Stack, cfg Config, key *string) {
	if cfg.AuditLock == 0 {
		return
	}
	props := bucketProps(cfg.lockedName(), key)
	props.ObjectLockEnabled = jsii.Bool(true)
	props.ObjectLockConfiguration = &awss3.CfnBucket_ObjectLockConfigurationProperty{
		ObjectLockEnabled: jsii.String("Enabled"),
		Rule: &awss3.CfnBucket_ObjectLockRuleProperty{DefaultRetention: &awss3.CfnBucket_DefaultRetentionProperty{
			Mode: jsii.String(lockModes[cfg.AuditLockMode]), Days: jsii.Number(cfg.AuditLock),
		}},
	}
	bucket := awss3.NewCfnBucket(stack, jsii.String("AuditBucket"), props)
	cfg.keep(bucket)
	anybody := map[string]any{"AWS": "*"}
	awss3.NewCfnBucketPolicy(stack, jsii.String("AuditBucketPolicy"), &awss3.CfnBucketPolicyProps{
		Bucket: bucket.Ref(),
		PolicyDocument: document(
			onlyTLS("s3:*", cfg.lockedARN(""), cfg.lockedARN("/*")),
			statement{
				id: "OnlyNew", deny: true, principal: anybody, actions: []string{"s3:PutObject"}, resources: []*string{cfg.lockedARN("/*")},
				when: map[string]any{"Null": map[string]any{"s3:if-none-match": "true"}},
			},
			statement{id: "NeverHidden", deny: true, principal: anybody, actions: []string{"s3:DeleteObject"}, resources: []*string{cfg.lockedARN("/*")}},
		),
	})
}

// lockedPermissions lets a function read the copies of audit digests, and write
// new ones; none may delete them or change their retention.
func lockedPermissions(cfg Config, spec fn.Spec) []statement {
	if cfg.AuditLock == 0 || spec.Needs.Locked == fn.NoAccess {
		return nil
	}
	out := []statement{
		{id: "ListLocked", actions: []string{"s3:ListBucket"}, resources: []*string{cfg.lockedARN("")}},
		{id: "ReadLocked", actions: []string{"s3:GetObject"}, resources: []*string{cfg.lockedARN("/*")}},
	}
	if spec.Needs.Locked == fn.Writes {
		out = append(out, statement{id: "Lock", actions: []string{"s3:PutObject"}, resources: []*string{cfg.lockedARN("/*/" + audit.Folder + "/*")}})
	}
	return out
}
