package resources

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"millrace/localstack/cloud/template"
)

// tablePatience is how long a table may take to come up.
const tablePatience = time.Minute

type keySchema []struct{ AttributeName, KeyType string }

func (k keySchema) elements() []types.KeySchemaElement {
	var out []types.KeySchemaElement
	for _, e := range k {
		out = append(out, types.KeySchemaElement{AttributeName: aws.String(e.AttributeName), KeyType: types.KeyType(e.KeyType)})
	}
	return out
}

type tableProperties struct {
	TableName              string
	BillingMode            string
	AttributeDefinitions   []struct{ AttributeName, AttributeType string }
	KeySchema              keySchema
	GlobalSecondaryIndexes []struct {
		IndexName  string
		KeySchema  keySchema
		Projection struct {
			ProjectionType   string
			NonKeyAttributes []string
		}
	}
	TimeToLiveSpecification *struct {
		AttributeName string
		Enabled       bool
	}
}

// table makes a table. What protects it against loss has no effect here.
func (m *maker) table(ctx context.Context, r *template.Resource, properties map[string]any) (template.Attributes, error) {
	p, err := decode[tableProperties](properties, "DeletionProtectionEnabled", "PointInTimeRecoverySpecification", "SSESpecification",
		"ContributorInsightsSpecification", "OnDemandThroughput", "TableClass", "ResourcePolicy", "WarmThroughput")
	if err != nil {
		return template.Attributes{}, err
	}
	if p.BillingMode != string(types.BillingModePayPerRequest) {
		return template.Attributes{}, fmt.Errorf("the billing mode %q is not known here", p.BillingMode)
	}
	name := cmp.Or(p.TableName, r.PhysicalName())
	in := &dynamodb.CreateTableInput{TableName: &name, BillingMode: types.BillingMode(p.BillingMode), KeySchema: p.KeySchema.elements()}
	for _, a := range p.AttributeDefinitions {
		in.AttributeDefinitions = append(in.AttributeDefinitions, types.AttributeDefinition{
			AttributeName: aws.String(a.AttributeName), AttributeType: types.ScalarAttributeType(a.AttributeType),
		})
	}
	for _, x := range p.GlobalSecondaryIndexes {
		in.GlobalSecondaryIndexes = append(in.GlobalSecondaryIndexes, types.GlobalSecondaryIndex{
			IndexName: aws.String(x.IndexName), KeySchema: x.KeySchema.elements(),
			Projection: &types.Projection{ProjectionType: types.ProjectionType(x.Projection.ProjectionType), NonKeyAttributes: x.Projection.NonKeyAttributes},
		})
	}
	if _, err := m.DynamoDB.CreateTable(ctx, in); err != nil {
		return template.Attributes{}, err
	}
	up := dynamodb.NewTableExistsWaiter(m.DynamoDB, func(o *dynamodb.TableExistsWaiterOptions) {
		o.MinDelay, o.MaxDelay = 20*time.Millisecond, time.Second
	})
	if err := up.Wait(ctx, &dynamodb.DescribeTableInput{TableName: &name}, tablePatience); err != nil {
		return template.Attributes{}, err
	}
	if t := p.TimeToLiveSpecification; t != nil {
		if _, err := m.DynamoDB.UpdateTimeToLive(ctx, &dynamodb.UpdateTimeToLiveInput{TableName: &name, TimeToLiveSpecification: &types.TimeToLiveSpecification{
			AttributeName: &t.AttributeName, Enabled: &t.Enabled,
		}}); err != nil {
			return template.Attributes{}, err
		}
	}
	m.made(r, name)
	m.out.Tables = append(m.out.Tables, name)
	return template.Attributes{Ref: name, Att: map[string]string{"Arn": m.arn("dynamodb", "table/"+name)}}, nil
}

// queueAttributes are the properties of queues that are attributes of SQS, by the
// same names.
var queueAttributes = []string{
	"DelaySeconds", "KmsDataKeyReusePeriodSeconds", "KmsMasterKeyId", "MaximumMessageSize", "MessageRetentionPeriod",
	"ReceiveMessageWaitTimeSeconds", "RedriveAllowPolicy", "RedrivePolicy", "SqsManagedSseEnabled", "VisibilityTimeout",
}

// queue makes a queue.
func (m *maker) queue(ctx context.Context, r *template.Resource, properties map[string]any) (template.Attributes, error) {
	attributes, name := map[string]string{}, r.PhysicalName()
	for key, value := range properties {
		switch {
		case key == "QueueName":
			name = fmt.Sprint(value)
		case key == "Tags":
		case !slices.Contains(queueAttributes, key):
			return template.Attributes{}, fmt.Errorf("the property %s is not known here", key)
		default:
			attributes[key] = fmt.Sprint(value)
			if policy, is := value.(map[string]any); is {
				data, err := json.Marshal(policy)
				if err != nil {
					return template.Attributes{}, err
				}
				attributes[key] = string(data)
			}
		}
	}
	made, err := m.SQS.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: &name, Attributes: attributes})
	if err != nil {
		return template.Attributes{}, err
	}
	m.made(r, name)
	return template.Attributes{Ref: *made.QueueUrl, Att: map[string]string{
		"Arn": m.arn("sqs", name), "QueueName": name, "QueueUrl": *made.QueueUrl,
	}}, nil
}

// key makes a key. Who may use it and when it is rotated has no effect here.
func (m *maker) key(ctx context.Context, r *template.Resource, properties map[string]any) (template.Attributes, error) {
	p, err := decode[struct{ Description string }](properties, "KeyPolicy", "EnableKeyRotation", "RotationPeriodInDays", "PendingWindowInDays")
	if err != nil {
		return template.Attributes{}, err
	}
	made, err := m.KMS.CreateKey(ctx, &kms.CreateKeyInput{Description: &p.Description})
	if err != nil {
		return template.Attributes{}, err
	}
	id, arn := *made.KeyMetadata.KeyId, *made.KeyMetadata.Arn
	m.made(r, id)
	return template.Attributes{Ref: id, Att: map[string]string{"Arn": arn, "KeyId": id}}, nil
}

func (m *maker) keyAlias(ctx context.Context, r *template.Resource, properties map[string]any) (template.Attributes, error) {
	p, err := decode[struct{ AliasName, TargetKeyId string }](properties)
	if err != nil {
		return template.Attributes{}, err
	}
	if _, err := m.KMS.CreateAlias(ctx, &kms.CreateAliasInput{AliasName: &p.AliasName, TargetKeyId: &p.TargetKeyId}); err != nil {
		return template.Attributes{}, err
	}
	m.made(r, p.AliasName)
	return template.Attributes{Ref: p.AliasName}, nil
}

type secretProperties struct {
	Name, Description, SecretString string
	GenerateSecretString            *struct {
		PasswordLength     *int64
		ExcludePunctuation *bool
	}
}

// secret makes a secret, of a value that Secrets Manager makes up if the template
// says so.
func (m *maker) secret(ctx context.Context, r *template.Resource, properties map[string]any) (template.Attributes, error) {
	p, err := decode[secretProperties](properties, "KmsKeyId")
	if err != nil {
		return template.Attributes{}, err
	}
	value := p.SecretString
	if g := p.GenerateSecretString; g != nil {
		made, err := m.SecretsManager.GetRandomPassword(ctx, &secretsmanager.GetRandomPasswordInput{
			PasswordLength: g.PasswordLength, ExcludePunctuation: g.ExcludePunctuation,
		})
		if err != nil {
			return template.Attributes{}, err
		}
		value = *made.RandomPassword
	}
	name := cmp.Or(p.Name, r.PhysicalName())
	made, err := m.SecretsManager.CreateSecret(ctx, &secretsmanager.CreateSecretInput{Name: &name, Description: &p.Description, SecretString: &value})
	if err != nil {
		return template.Attributes{}, err
	}
	m.made(r, name)
	m.secrets[*made.ARN] = value
	return template.Attributes{Ref: *made.ARN, Att: map[string]string{"Id": *made.ARN}}, nil
}

// dynamic follows references such as secretsmanager:ARN:SecretString:field::.
func (m *maker) dynamic(reference string) (string, error) {
	rest, is := strings.CutPrefix(reference, "secretsmanager:")
	if !is {
		return "", errors.New("only references to secrets are known here")
	}
	id, field, _ := strings.Cut(rest, ":SecretString")
	value, found := m.secrets[id]
	if !found {
		return "", errors.New("no such secret")
	}
	if field = strings.Trim(field, ":"); field == "" {
		return value, nil
	}
	var fields map[string]string
	if json.Unmarshal([]byte(value), &fields) != nil {
		return "", errors.New("the secret is no object of texts")
	}
	return fields[field], nil
}
