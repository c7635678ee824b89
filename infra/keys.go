package main

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"
	"github.com/aws/jsii-runtime-go"
)

// The keys are in the data stack. With a backup in another region they are
// multi-Region keys in a stack of their own, because their replicas are made
// before the data: the copies are encrypted with them.

// keysApart reports whether the data stack has the keys of another stack.
func (c Config) keysApart() bool { return c.BackupRegion != "" || c.RecoveredFrom != "" }

// dataKey returns the ARN of the key that encrypts the data, and the key if the
// data stack makes it.
func dataKey(stack awscdk.Stack, cfg Config) (arn *string, made awscdk.CfnResource) {
	if cfg.keysApart() {
		return cfg.imported(keyARN), nil
	}
	key := addKeys(stack, cfg)
	return key.AttrArn(), key
}

// addKeys adds the keys of a deployment, and returns that of the data.
func addKeys(stack awscdk.Stack, cfg Config) awskms.CfnKey {
	key := addKey(stack, cfg)
	addSigningKey(stack, cfg)
	return key
}

// multiRegion is the property MultiRegion of a key; nil for a key of one region,
// as it is in deployments from before the setting.
func (c Config) multiRegion() any {
	if c.BackupRegion == "" {
		return nil
	}
	return jsii.Bool(true)
}

// keyPolicy returns the policy of the key that encrypts all data at rest. The
// account's policies decide who may use it, and roles may use it only through the
// services named in them.
func keyPolicy(cfg Config) map[string]any {
	all := []*string{jsii.String("*")} // in a key's policy, "*" is this key
	sends := func(id, from string) statement {
		return statement{id: id, principal: service(from), resources: all, actions: []string{"kms:Decrypt", "kms:GenerateDataKey"}}
	}
	alarms := sends("AlarmsToTopic", "cloudwatch")
	alarms.when = map[string]any{"StringEquals": map[string]any{"aws:SourceAccount": awscdk.Fn_Ref(jsii.String("AWS::AccountId"))}}
	statements := []statement{
		{id: "Account", principal: map[string]any{"AWS": accountRoot()}, actions: []string{"kms:*"}, resources: all},
		{
			id: "Logs", principal: service("logs." + cfg.Region), resources: all,
			actions: []string{"kms:Encrypt", "kms:Decrypt", "kms:ReEncryptFrom", "kms:ReEncryptTo", "kms:GenerateDataKey", "kms:DescribeKey"},
			when: map[string]any{"ArnLike": map[string]any{
				"kms:EncryptionContext:aws:logs:arn": arn("logs", "log-group:"+cfg.logGroup("*")),
			}},
		},
		// As in the manuals of EventBridge and S3, without a condition: EventBridge does
		// not set aws:SourceAccount when it uses the key, and would drop every event
		// without a trace. The queues' policies limit which rule and bucket may send.
		alarms,
		sends("EventsToQueues", "events"),
		sends("BucketToQueue", "s3"),
	}
	for _, from := range cfg.costServices() {
		statements = append(statements, sends("Costs"+from, from))
	}
	return document(statements...)
}

// signingKeyPolicy returns the policy of the key that signs audit digests.
func signingKeyPolicy() map[string]any {
	return document(statement{
		id: "Account", principal: map[string]any{"AWS": accountRoot()}, actions: []string{"kms:*"}, resources: []*string{jsii.String("*")},
	})
}

// addKey adds the key that encrypts all data at rest.
func addKey(stack awscdk.Stack, cfg Config) awskms.CfnKey {
	key := awskms.NewCfnKey(stack, jsii.String("Key"), &awskms.CfnKeyProps{
		Description:         jsii.String("Encrypts the data of " + cfg.name("data")),
		EnableKeyRotation:   jsii.Bool(true),
		MultiRegion:         cfg.multiRegion(),
		PendingWindowInDays: jsii.Number(pendingDays),
		KeyPolicy:           keyPolicy(cfg),
	})
	cfg.keep(key)
	named(stack, cfg, "Key", "data", keyARN, key.AttrArn())
	return key
}

// named gives a key an alias, and exports its ARN.
func named(stack awscdk.Stack, cfg Config, id, alias, exported string, arn *string) {
	awskms.NewCfnAlias(stack, jsii.String(id+"Alias"), &awskms.CfnAliasProps{
		AliasName: jsii.String("alias/" + cfg.name(alias)), TargetKeyId: arn,
	})
	export(stack, cfg, id+"Arn", exported, arn)
}

// addSigningKey adds the key that signs the digests of audit logs. Its private
// part never leaves KMS, and a signature outlives it: KMS cannot rotate such a
// key, and digests signed by another one do not verify.
func addSigningKey(stack awscdk.Stack, cfg Config) {
	key := awskms.NewCfnKey(stack, jsii.String("SigningKey"), &awskms.CfnKeyProps{
		Description: jsii.String("Signs the audit digests of " + cfg.name("data")),
		KeySpec:     jsii.String("ECC_NIST_P256"), KeyUsage: jsii.String("SIGN_VERIFY"),
		PendingWindowInDays: jsii.Number(pendingDays),
		MultiRegion:         cfg.multiRegion(),
		KeyPolicy:           signingKeyPolicy(),
	})
	cfg.keep(key)
	named(stack, cfg, "SigningKey", "signing", signingKeyARN, key.AttrArn())
}

// accountRoot is the principal of the account: its policies decide.
func accountRoot() *string {
	return awscdk.Fn_Sub(jsii.String("arn:${AWS::Partition}:iam::${AWS::AccountId}:root"), nil)
}
