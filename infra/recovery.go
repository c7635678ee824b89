package main

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"
	"github.com/aws/jsii-runtime-go"
)

// primaryForm is the form of the ARN of a multi-Region key.
const primaryForm = `arn:aws[a-z-]*:kms:[a-z0-9-]+:[0-9]{12}:key/mrk-[0-9a-f]+`

// addRecovery adds what a deployment in the other region begins with when this one
// is lost: the replicas of the keys, the replicas of the objects, the vault with
// the copies of the table. Its exports of the keys have the names of those in the
// first region, so that a data stack there has these keys.
//
// cfg is that of the deployment, with the other region as its Region.
func addRecovery(stack awscdk.Stack, cfg Config) {
	// The IDs of keys are not known before they are made: make deploy reads them.
	primary := func(id string) *string {
		return awscdk.NewCfnParameter(stack, jsii.String(id), &awscdk.CfnParameterProps{
			Type: jsii.String("String"), AllowedPattern: jsii.String(primaryForm),
			Description: jsii.String("Output of " + cfg.name("keys") + " in the first region."),
		}).ValueAsString()
	}
	key := awskms.NewCfnReplicaKey(stack, jsii.String("Key"), &awskms.CfnReplicaKeyProps{
		Description: jsii.String("Encrypts the data of " + cfg.name("data")), PrimaryKeyArn: primary("PrimaryKeyArn"),
		PendingWindowInDays: jsii.Number(pendingDays), KeyPolicy: keyPolicy(cfg),
	})
	cfg.keep(key)
	named(stack, cfg, "Key", "data", keyARN, key.AttrArn())
	signing := awskms.NewCfnReplicaKey(stack, jsii.String("SigningKey"), &awskms.CfnReplicaKeyProps{
		Description: jsii.String("Signs the audit digests of " + cfg.name("data")), PrimaryKeyArn: primary("PrimarySigningKeyArn"),
		PendingWindowInDays: jsii.Number(pendingDays), KeyPolicy: signingKeyPolicy(),
	})
	cfg.keep(signing)
	named(stack, cfg, "SigningKey", "signing", signingKeyARN, signing.AttrArn())
	addBucket(stack, cfg, key.AttrArn())
	addVault(stack, cfg, key.AttrArn())
	addRestoreRole(stack, cfg, key.AttrArn())
}

// addRestoreRole adds the role with which an operator lets AWS Backup restore the
// table from a copy, under a new name.
func addRestoreRole(stack awscdk.Stack, cfg Config, key *string) {
	tables := arn("dynamodb", "table/"+cfg.name("table")+"*")
	role := awsiam.NewCfnRole(stack, jsii.String("RestoreRole"), &awsiam.CfnRoleProps{
		Description:              jsii.String("Lets AWS Backup restore the table from a copy"),
		AssumeRolePolicyDocument: trusts("backup"),
		Policies: []any{&awsiam.CfnRole_PolicyProperty{PolicyName: jsii.String("needs"), PolicyDocument: document(append([]statement{
			{id: "Restore", actions: []string{"dynamodb:RestoreTableFromAwsBackup"}, resources: []*string{tables, arn("backup", "recovery-point:*")}},
			{
				id: "Fill", resources: []*string{tables},
				actions: []string{
					"dynamodb:BatchWriteItem", "dynamodb:DeleteItem", "dynamodb:DescribeTable", "dynamodb:GetItem",
					"dynamodb:PutItem", "dynamodb:Query", "dynamodb:Scan", "dynamodb:UpdateItem",
				},
			},
		}, usesKeys(key)...)...)}},
	})
	awscdk.NewCfnOutput(stack, jsii.String("RestoreRoleArn"), &awscdk.CfnOutputProps{Value: role.AttrArn()})
}
