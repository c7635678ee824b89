package resources

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"

	"millrace/localstack/cloud/template"
)

// kind makes or describes a resource of one kind.
type kind func(ctx context.Context, m *maker, properties map[string]any) (template.Attributes, error)

// kinds are what is made or described, each with the properties that are without
// effect on one machine: who may reach it, how it is encrypted and kept, how much
// memory it has, where it logs. Tags are without effect on all.
var kinds = map[string]kind{
	"AWS::DynamoDB::Table":            of((*maker).table, "DeletionProtectionEnabled", "PointInTimeRecoverySpecification", "SSESpecification"),
	"AWS::SQS::Queue":                 of((*maker).queue),
	"AWS::S3::Bucket":                 of((*maker).bucket, "BucketEncryption", "OwnershipControls", "PublicAccessBlockConfiguration"),
	"AWS::KMS::Key":                   of((*maker).key, "EnableKeyRotation", "KeyPolicy", "PendingWindowInDays"),
	"AWS::KMS::Alias":                 of((*maker).keyAlias),
	"AWS::SecretsManager::Secret":     of((*maker).secret, "KmsKeyId"),
	"AWS::Events::EventBus":           of((*maker).bus),
	"AWS::Events::Rule":               of((*maker).rule, "Description"),
	"AWS::Lambda::Function":           of((*maker).function, "Architectures", "Code", "Description", "EphemeralStorage", "LoggingConfig", "MemorySize", "RecursiveLoop", "Role"),
	"AWS::Lambda::EventSourceMapping": of((*maker).mapping),
	"AWS::ApiGateway::RestApi":        of((*maker).restAPI, "DisableExecuteApiEndpoint", "EndpointConfiguration", "FailOnWarnings", "Name"),
	"AWS::ApiGateway::Stage":          of((*maker).stage, "AccessLogSetting", "DeploymentId", "MethodSettings", "RestApiId"),
}

// absent are the kinds without a counterpart on one machine.
var absent = []string{
	// Nothing checks permissions.
	"AWS::IAM::Role", "AWS::Lambda::Permission", "AWS::SQS::QueuePolicy", "AWS::S3::BucketPolicy", "AWS::SNS::TopicPolicy",
	// Nobody is called; logs are in files.
	"AWS::CloudWatch::Alarm", "AWS::CloudWatch::Dashboard", "AWS::SNS::Topic", "AWS::SNS::Subscription", "AWS::Logs::LogGroup",
	// Requests reach the stand-in for the API at once.
	"AWS::WAFv2::WebACL", "AWS::WAFv2::WebACLAssociation", "AWS::ApiGateway::Account", "AWS::ApiGateway::Deployment",
	"AWS::ApiGateway::DomainName", "AWS::ApiGateway::BasePathMapping",
	// Events that nobody waits for are tried once.
	"AWS::Lambda::EventInvokeConfig",
}

// of is a kind whose properties are read into a struct that has those that are
// applied. Those named are without effect on one machine, all others an error.
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
