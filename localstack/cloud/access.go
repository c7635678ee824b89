package cloud

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"regexp"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"millrace/localstack/cloud/access"
	"millrace/localstack/cloud/resources"
	"millrace/localstack/cloud/template"
	"millrace/localstack/localhost"
)

// AccessPath is the route of the Access report. It requires the local secret.
const AccessPath = "/_local/access"

// Access tells how functions used their roles.
type Access struct {
	Denied []string `json:"denied"` // what a function's role does not allow, each once
	Unused []string `json:"unused"` // permissions that no call has used: function, statement, action
}

// openGate serves the emulated services to the functions, each of which may do
// what its role allows. Functions on sandboxes' runtimes have no credentials of
// it.
func (c *Cloud) openGate() error {
	on := c.cfg.Services
	place := access.Place{Partition: template.Partition, Region: on.SQS.Config().Region, AccountID: on.AccountID}
	roles := map[string]access.Role{}
	for _, f := range c.Deployment.Functions {
		documents, found := c.Deployment.Roles[f.Role]
		if !found {
			return fmt.Errorf("cloud: %s has the role %q, which the templates do not make", f.Name, f.Role)
		}
		policy, err := access.Parse(documents...)
		if err != nil {
			return fmt.Errorf("cloud: %s: %w", f.Name, err)
		}
		if other, taken := roles[accessKey(f)]; taken {
			return fmt.Errorf("cloud: %s and %s have the same access key", f.Name, other.Name)
		}
		roles[accessKey(f)] = access.Role{Name: f.Name, Policy: policy}
	}
	gate, err := access.New(access.Config{
		Place: place, Keys: c.Deployment.Keys, Roles: roles, Log: c.cfg.Log,
		Services: map[string]string{
			"dynamodb": on.DynamoDB.URL, "s3": on.S3.URL, "sqs": on.SQS.URL, "events": on.EventBridge.URL, "kms": on.KMS.URL,
			"secretsmanager": on.SecretsManager.URL, "ses": on.SES.URL, "lambda": c.invoke,
		},
	})
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("cloud: %w", err)
	}
	c.Access, c.gate = gate, c.start(listener, localhost.Only(gate))
	c.gate.Addr = listener.Addr().String()
	return nil
}

var punctuation = regexp.MustCompile(`[^A-Za-z0-9]`)

// accessKey returns the access key id of a function, which names it. DynamoDB
// takes letters and digits only.
func accessKey(f resources.Function) string { return "ROLE" + punctuation.ReplaceAllString(f.Name, "") }

// receiver returns clients that receive messages for a function: Lambda does so
// in the function's role.
func (c *Cloud) receiver() func(function string) *sqs.Client {
	clients := map[string]*sqs.Client{}
	for _, f := range c.Deployment.Functions {
		cfg := c.cfg.Services.SQS.Config()
		cfg.BaseEndpoint = aws.String("http://" + c.gate.Addr)
		cfg.Credentials = credentials.NewStaticCredentialsProvider(accessKey(f), RoleSecret, "")
		clients[f.Name] = sqs.NewFromConfig(cfg)
	}
	return func(function string) *sqs.Client { return clients[function] }
}

func (c *Cloud) reportAccess(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(Access{Denied: c.Access.Denied(), Unused: c.Access.Unused()}) // the client may have disconnected
}
