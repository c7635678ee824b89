package access

import "strings"

// Keys are the ARNs of the keys that encrypt resources, by the ARN of the
// resource: of a table, a bucket, a queue or a secret.
type Keys map[string]string

// uses are the actions on the key that a service makes on behalf of a caller,
// by the caller's action, as the manuals of the services list them.
var uses = map[string][]string{
	"dynamodb:BatchGetItem": {"Decrypt"}, "dynamodb:GetItem": {"Decrypt"}, "dynamodb:Query": {"Decrypt"}, "dynamodb:ConditionCheckItem": {"Decrypt"},
	"dynamodb:BatchWriteItem": tableWrites, "dynamodb:PutItem": tableWrites, "dynamodb:UpdateItem": tableWrites, "dynamodb:DeleteItem": tableWrites,
	"dynamodb:DescribeTable": {"DescribeKey"},
	"s3:GetObject":           {"Decrypt"}, "s3:PutObject": {"GenerateDataKey"},
	"sqs:SendMessage": {"GenerateDataKey", "Decrypt"}, "sqs:ReceiveMessage": {"Decrypt"},
	"secretsmanager:GetSecretValue": {"Decrypt"},
}

var tableWrites = []string{"Decrypt", "Encrypt", "GenerateDataKey", "ReEncryptFrom", "ReEncryptTo"}

// Of returns the calls to KMS that a call brings with it.
func (k Keys) Of(p Place, c Call) []Call {
	service, _, _ := strings.Cut(c.Action, ":")
	resource := c.Resource
	switch service {
	case "s3":
		resource, _, _ = strings.Cut(resource, "/")
	case "dynamodb":
		resource, _, _ = strings.Cut(resource, "/index/")
	}
	key, encrypted := k[resource]
	if !encrypted {
		return nil
	}
	actions := uses[c.Action]
	if c.Parts && c.Action == "s3:PutObject" {
		actions = append([]string{"Decrypt"}, actions...)
	}
	return each(actions, func(action string) Call {
		return Call{Action: "kms:" + action, Resource: key, Context: Context{"kms:ViaService": {service + "." + p.Region + ".amazonaws.com"}}}
	})
}
