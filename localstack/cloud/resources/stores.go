package resources

import (
	"context"
	"encoding/json"
	"maps"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"millrace/localstack/cloud/template"
	"millrace/localstack/emulators"
)

// What templates say of a resource is for the most part the input by which its
// service makes it, under the same names.

type tableProperties struct {
	dynamodb.CreateTableInput
	TimeToLiveSpecification *types.TimeToLiveSpecification
}

func (m *maker) table(ctx context.Context, p tableProperties) (template.Attributes, error) {
	if err := emulators.MakeTable(ctx, m.DynamoDB, &p.CreateTableInput, p.TimeToLiveSpecification); err != nil {
		return template.Attributes{}, err
	}
	m.out.Tables = append(m.out.Tables, *p.TableName)
	return template.Attributes{Ref: *p.TableName, ARN: m.arn("dynamodb", "table/"+*p.TableName)}, nil
}

type queueProperties struct {
	QueueName, KmsMasterKeyId         string
	KmsDataKeyReusePeriodSeconds      json.Number
	MaximumMessageSize                json.Number
	MessageRetentionPeriod            json.Number
	VisibilityTimeout                 json.Number
	RedrivePolicy, RedriveAllowPolicy json.RawMessage
}

func (m *maker) queue(ctx context.Context, p queueProperties) (template.Attributes, error) {
	attributes := map[string]string{
		"MaximumMessageSize": p.MaximumMessageSize.String(), "MessageRetentionPeriod": p.MessageRetentionPeriod.String(),
		"VisibilityTimeout": p.VisibilityTimeout.String(), "KmsDataKeyReusePeriodSeconds": p.KmsDataKeyReusePeriodSeconds.String(),
		"KmsMasterKeyId": p.KmsMasterKeyId, "RedrivePolicy": string(p.RedrivePolicy), "RedriveAllowPolicy": string(p.RedriveAllowPolicy),
	}
	maps.DeleteFunc(attributes, func(_, value string) bool { return value == "" })
	made, err := m.SQS.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: &p.QueueName, Attributes: attributes})
	if err != nil {
		return template.Attributes{}, err
	}
	return template.Attributes{Ref: *made.QueueUrl, ARN: m.arn("sqs", p.QueueName)}, nil
}

func (m *maker) key(ctx context.Context, p kms.CreateKeyInput) (template.Attributes, error) {
	made, err := m.KMS.CreateKey(ctx, &p)
	if err != nil {
		return template.Attributes{}, err
	}
	return template.Attributes{Ref: *made.KeyMetadata.KeyId, ARN: *made.KeyMetadata.Arn}, nil
}

func (m *maker) keyAlias(ctx context.Context, p kms.CreateAliasInput) (template.Attributes, error) {
	_, err := m.KMS.CreateAlias(ctx, &p)
	return template.Attributes{Ref: aws.ToString(p.AliasName)}, err
}

type secretProperties struct {
	Name, Description    *string
	GenerateSecretString secretsmanager.GetRandomPasswordInput
}

// secret makes a secret of a value that Secrets Manager makes up.
func (m *maker) secret(ctx context.Context, p secretProperties) (template.Attributes, error) {
	value, err := m.SecretsManager.GetRandomPassword(ctx, &p.GenerateSecretString)
	if err != nil {
		return template.Attributes{}, err
	}
	made, err := m.SecretsManager.CreateSecret(ctx, &secretsmanager.CreateSecretInput{
		Name: p.Name, Description: p.Description, SecretString: value.RandomPassword,
	})
	if err != nil {
		return template.Attributes{}, err
	}
	return template.Attributes{Ref: *made.ARN}, nil
}
