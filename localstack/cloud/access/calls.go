package access

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// Place is the environment of a deployment, which ARNs name.
type Place struct{ Partition, Region, AccountID string }

func (p Place) arn(service, resource string) string {
	return "arn:" + p.Partition + ":" + service + ":" + p.Region + ":" + p.AccountID + ":" + resource
}

// request is a request to a service.
type request struct {
	*http.Request
	Place
	operation string // PutItem; empty if the service has no header for it
	body      []byte // of services that have it
}

// Credential is what a request says of its caller: of the Authorization header
// or, in a presigned URL, of the query.
type Credential struct{ AccessKeyID, Service string }

// errUnsigned means that a request has no credential.
var errUnsigned = errors.New("access: the request is not signed")

// CredentialOf returns the credential of a request. It does not check the
// signature.
func CredentialOf(r *http.Request) (Credential, error) {
	scope := r.URL.Query().Get("X-Amz-Credential")
	if scope == "" {
		_, after, _ := strings.Cut(r.Header.Get("Authorization"), "Credential=")
		scope, _, _ = strings.Cut(after, ",")
	}
	parts := strings.Split(scope, "/") // key, date, region, service, aws4_request
	if len(parts) != 5 || parts[0] == "" {
		return Credential{}, errUnsigned
	}
	return Credential{AccessKeyID: parts[0], Service: parts[3]}, nil
}

// services are the readers of requests, by the name that requests are signed
// for.
var services = map[string]func(r *request) ([]Call, error){
	"dynamodb": (*request).dynamoDB, "s3": (*request).s3, "sqs": (*request).sqs, "events": (*request).events,
	"kms": (*request).kms, "secretsmanager": (*request).secretsManager, "ses": (*request).ses, "lambda": (*request).lambda,
}

// hasBody reports whether the calls of a request depend on its body. Those of
// objects do not, except for deleting several.
func hasBody(service string, r *http.Request) bool {
	return service != "s3" || r.Method == http.MethodPost && r.URL.Query().Has("delete")
}

// Calls returns what a request does, given its body if that matters. An
// operation that is not known here is an error.
func Calls(p Place, service string, r *http.Request, body []byte) ([]Call, error) {
	read, known := services[service]
	if !known {
		return nil, fmt.Errorf("access: the service %q is not known here", service)
	}
	req := &request{Request: r, Place: p, body: body}
	if _, operation, found := strings.Cut(r.Header.Get("X-Amz-Target"), "."); found {
		req.operation = operation
	}
	calls, err := read(req)
	if err == nil && len(calls) == 0 {
		err = errors.New("it acts on nothing")
	}
	if err != nil {
		return nil, fmt.Errorf("access: %s %s %s: %w", service, r.Method, req.operation, err)
	}
	return calls, nil
}

// decode reads a body of JSON.
func decode[T any](r *request) (out T, err error) {
	err = json.Unmarshal(r.body, &out)
	return out, err
}

var errUnknown = errors.New("the operation is not known here")

// sqs reads requests to queues. A batch needs the permission of one.
func (r *request) sqs() ([]Call, error) {
	in, err := decode[struct{ QueueUrl, QueueName string }](r)
	if err != nil {
		return nil, err
	}
	operation := strings.TrimSuffix(r.operation, "Batch")
	switch operation {
	case "GetQueueUrl", "SendMessage", "ReceiveMessage", "DeleteMessage", "ChangeMessageVisibility", "GetQueueAttributes":
	default:
		return nil, errUnknown
	}
	name := in.QueueName
	if name == "" {
		name = in.QueueUrl[strings.LastIndexByte(in.QueueUrl, '/')+1:]
	}
	return []Call{{Action: "sqs:" + operation, Resource: r.arn("sqs", name)}}, nil
}

// events reads requests to buses: each event is a call.
func (r *request) events() ([]Call, error) {
	if r.operation != "PutEvents" {
		return nil, errUnknown
	}
	in, err := decode[struct {
		Entries []struct{ EventBusName, Source string }
	}](r)
	var calls []Call
	for _, e := range in.Entries {
		bus := e.EventBusName
		if bus == "" {
			bus = "default"
		}
		if !strings.HasPrefix(bus, "arn:") {
			bus = r.arn("events", "event-bus/"+bus)
		}
		calls = append(calls, Call{Action: "events:PutEvents", Resource: bus, Context: Context{"events:source": {e.Source}}})
	}
	return calls, err
}

// kms reads requests to keys, which are named by their ARNs.
func (r *request) kms() ([]Call, error) {
	switch r.operation {
	case "Encrypt", "Decrypt", "Sign", "GetPublicKey", "DescribeKey", "GenerateDataKey":
	default:
		return nil, errUnknown
	}
	in, err := decode[struct {
		KeyId             string
		EncryptionContext map[string]string
	}](r)
	key := in.KeyId
	if !strings.HasPrefix(key, "arn:") {
		key = r.arn("kms", "key/"+key)
	}
	return []Call{{Action: "kms:" + r.operation, Resource: key, Context: encryptionContext(in.EncryptionContext)}}, err
}

func encryptionContext(of map[string]string) Context {
	out := Context{}
	for name, value := range of {
		out["kms:EncryptionContext:"+name] = []string{value}
		out["kms:EncryptionContextKeys"] = append(out["kms:EncryptionContextKeys"], name)
	}
	return out
}

// secretsManager reads requests to secrets, which are named by their ARNs.
func (r *request) secretsManager() ([]Call, error) {
	if r.operation != "GetSecretValue" {
		return nil, errUnknown
	}
	in, err := decode[struct{ SecretId string }](r)
	return []Call{{Action: "secretsmanager:GetSecretValue", Resource: in.SecretId}}, err
}

// ses reads requests to send mail. The identity is the address; a policy that
// allows the domain's has to name the address, too.
func (r *request) ses() ([]Call, error) {
	if r.Method != http.MethodPost || r.URL.Path != "/v2/email/outbound-emails" {
		return nil, errUnknown
	}
	in, err := decode[struct{ FromEmailAddress string }](r)
	address := in.FromEmailAddress
	if _, after, named := strings.Cut(address, "<"); named {
		address = strings.TrimSuffix(after, ">")
	}
	return []Call{{
		Action: "ses:SendEmail", Resource: r.arn("ses", "identity/"+address), Context: Context{"ses:FromAddress": {address}},
	}}, err
}

// lambda reads requests to functions.
func (r *request) lambda() ([]Call, error) {
	name, is := strings.CutPrefix(r.URL.Path, "/2015-03-31/functions/")
	name, invokes := strings.CutSuffix(name, "/invocations")
	if r.Method != http.MethodPost || !is || !invokes {
		return nil, errUnknown
	}
	if !strings.HasPrefix(name, "arn:") {
		name = r.arn("lambda", "function:"+name)
	}
	if alias := r.URL.Query().Get("Qualifier"); alias != "" {
		name += ":" + alias
	}
	return []Call{{Action: "lambda:InvokeFunction", Resource: name}}, nil
}
