package resources

import (
	"context"
	"slices"

	"millrace/localstack/cloud/template"
)

type roleProperties struct {
	AssumeRolePolicyDocument any // only services assume roles
	Policies                 []struct {
		PolicyName     string
		PolicyDocument any
	}
}

// role describes a role by its own policies. Managed ones are AWS's, of roles
// that no function has. Without a name, AWS makes one.
func (m *maker) role(_ context.Context, p roleProperties) (template.Attributes, error) {
	name := m.resource.Name()
	out := template.Attributes{Ref: name, ARN: "arn:" + template.Partition + ":iam::" + m.AccountID + ":role/" + name}
	m.out.Roles[out.ARN] = []any{}
	for _, policy := range p.Policies {
		m.out.Roles[out.ARN] = append(m.out.Roles[out.ARN], policy.PolicyDocument)
	}
	return out, nil
}

// keyProperties are the properties that name the key of a resource.
var keyProperties = []string{"KMSMasterKeyID", "KMSMasterKeyId", "KmsMasterKeyId", "KmsKeyId"}

// keyOf returns the ARN of the key that encrypts a resource, "" for none.
func keyOf(v any) string {
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			if key, is := value.(string); is && slices.Contains(keyProperties, name) {
				return key
			}
			if key := keyOf(value); key != "" {
				return key
			}
		}
	case []any:
		for _, value := range v {
			if key := keyOf(value); key != "" {
				return key
			}
		}
	}
	return ""
}
