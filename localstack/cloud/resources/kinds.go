package resources

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"

	"millrace/localstack/cloud/template"
)

// kind creates or describes a resource of one kind.
type kind func(ctx context.Context, m *maker, properties map[string]any) (template.Attributes, error)

// kinds are the kinds that are created or described, each with the properties
// that have no effect on one machine: permissions, encryption, retention,
// logging, parts of an account's concurrency. Tags have no effect on any kind.
var kinds = map[string]kind{
	"AWS::DynamoDB::Table":            of((*maker).table, "DeletionProtectionEnabled", "OnDemandThroughput", "PointInTimeRecoverySpecification", "SSESpecification"),
	"AWS::SQS::Queue":                 of((*maker).queue),
	"AWS::S3::Bucket":                 of((*maker).bucket, "BucketEncryption", "OwnershipControls", "PublicAccessBlockConfiguration", "ReplicationConfiguration"),
	"AWS::KMS::Key":                   of((*maker).key, "EnableKeyRotation", "KeyPolicy", "MultiRegion", "PendingWindowInDays"),
	"AWS::KMS::Alias":                 of((*maker).keyAlias),
	"AWS::SecretsManager::Secret":     of((*maker).secret, "KmsKeyId"),
	"AWS::Events::EventBus":           of((*maker).bus),
	"AWS::Events::Rule":               of((*maker).rule, "Description"),
	"AWS::Lambda::Function":           of((*maker).function, "Architectures", "Code", "Description", "EphemeralStorage", "LoggingConfig", "RecursiveLoop", "ReservedConcurrentExecutions"),
	"AWS::Lambda::Version":            of((*maker).version),
	"AWS::Lambda::Alias":              of((*maker).alias),
	"AWS::IAM::Role":                  of((*maker).role, "Description", "ManagedPolicyArns"),
	"AWS::Lambda::EventSourceMapping": of((*maker).mapping, "ScalingConfig"),
	"AWS::Lambda::Url":                of((*maker).url),
	"AWS::Lambda::Permission":         of((*maker).permission, "SourceArn"),
	"AWS::ApiGateway::RestApi":        of((*maker).restAPI, "DisableExecuteApiEndpoint", "EndpointConfiguration", "FailOnWarnings", "Name", "Parameters"),
	"AWS::ApiGateway::Stage":          of((*maker).stage, "AccessLogSetting", "DeploymentId", "MethodSettings", "RestApiId"),
}

// absent are the kinds without a counterpart on one machine.
var absent = []string{
	// Only the policies of roles are checked, and the permissions of everybody at a
	// function's URL.
	"AWS::SQS::QueuePolicy", "AWS::S3::BucketPolicy", "AWS::SNS::TopicPolicy",
	// No alarms are sent; logs are in files.
	"AWS::CloudWatch::Alarm", "AWS::CloudWatch::Dashboard", "AWS::SNS::Topic", "AWS::SNS::Subscription", "AWS::Logs::LogGroup",
	// Requests go directly to the emulated API.
	"AWS::WAFv2::WebACL", "AWS::WAFv2::WebACLAssociation", "AWS::ApiGateway::Account", "AWS::ApiGateway::Deployment",
	"AWS::ApiGateway::DomainName", "AWS::ApiGateway::BasePathMapping",
	// The machine has a sign-in of its own.
	"AWS::Cognito::UserPool", "AWS::Cognito::UserPoolDomain", "AWS::Cognito::UserPoolClient", "AWS::Cognito::ManagedLoginBranding",
	// There is no other region.
	"AWS::Backup::BackupVault", "AWS::Backup::BackupPlan", "AWS::Backup::BackupSelection",
	// Nothing costs anything.
	"AWS::Budgets::Budget", "AWS::CE::AnomalySubscription",
	// Asynchronous events are tried once.
	"AWS::Lambda::EventInvokeConfig",
	// A function has one version here.
	"AWS::CodeDeploy::Application", "AWS::CodeDeploy::DeploymentGroup",
}

// of returns a kind whose properties are decoded into a struct with those that
// are applied. The named ones have no effect on one machine; any other is an
// error.
func of[T any](make func(*maker, context.Context, T) (template.Attributes, error), without ...string) kind {
	return func(ctx context.Context, m *maker, properties map[string]any) (template.Attributes, error) {
		applied := maps.Clone(properties)
		for _, name := range append(without, "Tags") {
			delete(applied, name)
		}
		data, err := json.Marshal(applied)
		if err != nil {
			return template.Attributes{}, err
		}
		var p T
		dec := json.NewDecoder(bytes.NewReader(data))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&p); err != nil {
			return template.Attributes{}, fmt.Errorf("its properties: %w", err)
		}
		return make(m, ctx, p)
	}
}
