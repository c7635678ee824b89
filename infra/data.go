package main

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsevents"
	"github.com/aws/aws-cdk-go/awscdk/v2/awss3"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssecretsmanager"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"millrace/shared/platform/table/dynamo"
	"millrace/shared/web/fn"
	"millrace/shared/web/httpapi"
)

// The exports of the data stack. Other stacks refer to everything else by name.
const (
	keyARN        = "key-arn"
	signingKeyARN = "signing-key-arn"
	cursorSecret  = "cursor-secret-arn"
	attemptKey    = "attempt-secret-arn"
)

// Retention in days.
const (
	recoveryDays   = 35 // point-in-time recovery of the table; the maximum
	noncurrentDays = 30 // replaced or deleted versions of objects
	partsDays      = 2  // parts of incomplete uploads; their URLs are valid for hours
	pendingDays    = 30 // a key scheduled for deletion
)

func addData(stack awscdk.Stack, cfg Config, specs []fn.Spec) {
	key, made := dataKey(stack, cfg)
	var bucket awss3.CfnBucket
	if cfg.RecoveredFrom == "" { // else it is in the recovery stack, with the objects
		bucket = addBucket(stack, cfg, key)
		replicate(stack, cfg, bucket)
	}
	addLockedBucket(stack, cfg, key)
	addSecret(stack, cfg, key, "CursorSecret", "cursor-secret", cursorSecret, "Signs the cursors of lists.")
	addSecret(stack, cfg, key, "AttemptSecret", "attempt-secret", attemptKey, "Signs the tokens of task attempts.")
	bus := awsevents.NewCfnEventBus(stack, jsii.String("Bus"), &awsevents.CfnEventBusProps{Name: jsii.String(cfg.name("bus"))})
	cfg.keep(bus)
	addQueues(stack, cfg, specs, key)
	addBusRules(stack, cfg, specs, bus)
	notify(stack, cfg, specs, bucket)
	addUsers(stack, cfg)
	addBackup(stack, cfg, key)
	// Last, after everything else: the table is protected against deletion, so a
	// creation that fails later could not be undone.
	addLast(stack, addTable(stack, cfg, key), made)
}

// addLast makes a resource depend on all others of the stack, besides one that it
// refers to, if there is one.
func addLast(stack awscdk.Stack, last, referred awscdk.CfnResource) {
	besides := *last.LogicalId()
	if referred != nil {
		besides = *referred.LogicalId()
	}
	for _, node := range *stack.Node().FindAll(constructs.ConstructOrder_PREORDER) {
		if other, is := node.(awscdk.CfnResource); is && *other.LogicalId() != *last.LogicalId() && *other.LogicalId() != besides {
			last.AddDependency(other)
		}
	}
}

// keep makes a resource outlive its stack, where data is kept. What a failed
// creation has made is deleted all the same: its name would be taken when the
// deployment is repeated.
func (c Config) keep(resource awscdk.CfnResource) {
	policy := awscdk.RemovalPolicy_DESTROY
	if c.protected() {
		policy = awscdk.RemovalPolicy_RETAIN_ON_UPDATE_OR_DELETE
	}
	resource.ApplyRemovalPolicy(policy, nil)
}

func export(stack awscdk.Stack, cfg Config, id, name string, value *string) {
	awscdk.NewCfnOutput(stack, jsii.String(id), &awscdk.CfnOutputProps{Value: value, ExportName: jsii.String(cfg.name(name))})
}

// imported returns an export of the data stack.
func (c Config) imported(name string) *string {
	return awscdk.Fn_ImportValue(jsii.String(c.name(name)))
}

// addTable adds the table, from the service's own definition.
func addTable(stack awscdk.Stack, cfg Config, key *string) awsdynamodb.CfnTable {
	schema := dynamo.Schema(cfg.name("table"))
	ttl := dynamo.TimeToLive(cfg.name("table")).TimeToLiveSpecification
	var attributes, indexes []any
	for _, a := range schema.AttributeDefinitions {
		attributes = append(attributes, &awsdynamodb.CfnTable_AttributeDefinitionProperty{
			AttributeName: a.AttributeName, AttributeType: jsii.String(string(a.AttributeType)),
		})
	}
	var keys []any
	for _, k := range schema.KeySchema {
		keys = append(keys, &awsdynamodb.CfnTable_KeySchemaProperty{AttributeName: k.AttributeName, KeyType: jsii.String(string(k.KeyType))})
	}
	for _, x := range schema.GlobalSecondaryIndexes {
		var keys []any
		for _, k := range x.KeySchema {
			keys = append(keys, &awsdynamodb.CfnTable_KeySchemaProperty{AttributeName: k.AttributeName, KeyType: jsii.String(string(k.KeyType))})
		}
		indexes = append(indexes, &awsdynamodb.CfnTable_GlobalSecondaryIndexProperty{
			IndexName: x.IndexName, KeySchema: keys, OnDemandThroughput: cfg.throughput(),
			Projection: &awsdynamodb.CfnTable_ProjectionProperty{ProjectionType: jsii.String(string(x.Projection.ProjectionType))},
		})
	}
	table := awsdynamodb.NewCfnTable(stack, jsii.String("Table"), &awsdynamodb.CfnTableProps{
		TableName:                 schema.TableName,
		BillingMode:               jsii.String(string(schema.BillingMode)),
		AttributeDefinitions:      attributes,
		KeySchema:                 keys,
		GlobalSecondaryIndexes:    indexes,
		DeletionProtectionEnabled: jsii.Bool(cfg.protected()),
		PointInTimeRecoverySpecification: &awsdynamodb.CfnTable_PointInTimeRecoverySpecificationProperty{
			PointInTimeRecoveryEnabled: jsii.Bool(true), RecoveryPeriodInDays: jsii.Number(recoveryDays),
		},
		SseSpecification: &awsdynamodb.CfnTable_SSESpecificationProperty{
			SseEnabled: jsii.Bool(true), SseType: jsii.String("KMS"), KmsMasterKeyId: key,
		},
		OnDemandThroughput:      cfg.throughput(),
		TimeToLiveSpecification: &awsdynamodb.CfnTable_TimeToLiveSpecificationProperty{AttributeName: ttl.AttributeName, Enabled: ttl.Enabled},
	})
	cfg.keep(table)
	return table
}

// addBucket adds the bucket of artifacts, outputs and logs. Its objects are
// immutable or replaced as a whole, so versions only protect against accidents.
func addBucket(stack awscdk.Stack, cfg Config, key *string) awss3.CfnBucket {
	props := bucketProps(cfg.bucketName(), key)
	props.CorsConfiguration = bucketCORS(cfg)
	props.LifecycleConfiguration = &awss3.CfnBucket_LifecycleConfigurationProperty{Rules: []any{
		&awss3.CfnBucket_RuleProperty{
			Id: jsii.String("abandoned-uploads"), Status: jsii.String("Enabled"),
			AbortIncompleteMultipartUpload: &awss3.CfnBucket_AbortIncompleteMultipartUploadProperty{DaysAfterInitiation: jsii.Number(partsDays)},
		},
		&awss3.CfnBucket_RuleProperty{
			Id: jsii.String("old-versions"), Status: jsii.String("Enabled"), ExpiredObjectDeleteMarker: jsii.Bool(true),
			NoncurrentVersionExpiration: &awss3.CfnBucket_NoncurrentVersionExpirationProperty{NoncurrentDays: jsii.Number(noncurrentDays)},
		},
		&awss3.CfnBucket_RuleProperty{
			Id: jsii.String("exception-traces"), Status: jsii.String("Enabled"),
			Prefix: jsii.String(httpapi.TracePrefix), ExpirationInDays: jsii.Number(httpapi.TraceDays),
		},
	}}
	bucket := awss3.NewCfnBucket(stack, jsii.String("Bucket"), props)
	cfg.keep(bucket)
	awss3.NewCfnBucketPolicy(stack, jsii.String("BucketPolicy"), &awss3.CfnBucketPolicyProps{
		Bucket:         bucket.Ref(),
		PolicyDocument: document(onlyTLS("s3:*", cfg.bucketARN(), cfg.bucketARN("*"))),
	})
	return bucket
}

// bucketProps returns the properties of every bucket: encrypted, versioned, and
// never public.
func bucketProps(name *string, key *string) *awss3.CfnBucketProps {
	return &awss3.CfnBucketProps{
		BucketName: name,
		BucketEncryption: &awss3.CfnBucket_BucketEncryptionProperty{ServerSideEncryptionConfiguration: []any{
			&awss3.CfnBucket_ServerSideEncryptionRuleProperty{
				BucketKeyEnabled: jsii.Bool(true),
				ServerSideEncryptionByDefault: &awss3.CfnBucket_ServerSideEncryptionByDefaultProperty{
					SseAlgorithm: jsii.String("aws:kms"), KmsMasterKeyId: key,
				},
			},
		}},
		VersioningConfiguration: &awss3.CfnBucket_VersioningConfigurationProperty{Status: jsii.String("Enabled")},
		OwnershipControls: &awss3.CfnBucket_OwnershipControlsProperty{Rules: []any{
			&awss3.CfnBucket_OwnershipControlsRuleProperty{ObjectOwnership: jsii.String("BucketOwnerEnforced")},
		}},
		PublicAccessBlockConfiguration: &awss3.CfnBucket_PublicAccessBlockConfigurationProperty{
			BlockPublicAcls: jsii.Bool(true), BlockPublicPolicy: jsii.Bool(true),
			IgnorePublicAcls: jsii.Bool(true), RestrictPublicBuckets: jsii.Bool(true),
		},
	}
}

// onlyTLS denies all requests without TLS.
func onlyTLS(actions string, resources ...*string) statement {
	return statement{
		id: "OnlyTLS", deny: true, principal: map[string]any{"AWS": "*"}, actions: []string{actions}, resources: resources,
		when: map[string]any{"Bool": map[string]any{"aws:SecureTransport": "false"}},
	}
}

// addSecret adds a generated secret: 64 letters and digits, which are the
// base64 of 48 bytes. Functions read it when they start.
func addSecret(stack awscdk.Stack, cfg Config, key *string, id, name, exported, doc string) {
	secret := awssecretsmanager.NewCfnSecret(stack, jsii.String(id), &awssecretsmanager.CfnSecretProps{
		Name: jsii.String(cfg.name(name)), Description: jsii.String(doc), KmsKeyId: key,
		GenerateSecretString: &awssecretsmanager.CfnSecret_GenerateSecretStringProperty{
			PasswordLength: jsii.Number(64), ExcludePunctuation: jsii.Bool(true),
		},
	})
	cfg.keep(secret)
	export(stack, cfg, id+"Arn", exported, secret.Ref())
}
