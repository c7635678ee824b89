package access

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var here = Place{Partition: "aws", Region: "eu-west-1", AccountID: "1"}

// send returns a request that is signed for a service.
func send(method, url, target, body string) *http.Request {
	r := httptest.NewRequest(method, url, strings.NewReader(body))
	if target != "" {
		r.Header.Set("X-Amz-Target", target)
	}
	return r
}

func TestCalls(t *testing.T) {
	t.Parallel()
	keys := func(values ...string) Context { return Context{leadingKeys: values} }
	const dynamo, bucket, item = "DynamoDB_20120810.", "arn:aws:s3:::b", `{"pk": {"S": "p"}, "sk": {"S": "s"}, "n": {"N": "1"}, "m": {"M": {"S": {"S": "x"}}}}`
	prefix := func(text string) Context { return Context{"s3:prefix": {text}} }
	for _, c := range []struct {
		service, method, url, target, body string
		want                               []Call
	}{
		{"dynamodb", "POST", "/", dynamo + "GetItem", `{"TableName": "t", "Key": ` + item + `}`, []Call{{Action: "dynamodb:GetItem", Resource: theTable, Context: keys("p")}}},
		{"dynamodb", "POST", "/", dynamo + "PutItem", `{"TableName": "` + theTable + `", "Item": ` + item + `}`, []Call{{Action: "dynamodb:PutItem", Resource: theTable, Context: keys("p")}}},
		{"dynamodb", "POST", "/", dynamo + "DescribeTable", `{"TableName": "t"}`, []Call{{Action: "dynamodb:DescribeTable", Resource: theTable}}},
		{"dynamodb", "POST", "/", dynamo + "Query", `{"TableName": "t", "KeyConditionExpression": "#1 = :1 AND #0 = :0", "ExpressionAttributeNames": {"#0": "pk", "#1": "sk"}, "ExpressionAttributeValues": {":0": {"S": "p"}, ":1": {"S": "s"}}}`,
			[]Call{{Action: "dynamodb:Query", Resource: theTable, Context: keys("p")}}},
		{"dynamodb", "POST", "/", dynamo + "Query", `{"TableName": "t", "IndexName": "l1_index", "KeyConditionExpression": "l1_pk = :0 AND begins_with(l1_sk, :1)", "ExpressionAttributeValues": {":0": {"S": "q"}, ":1": {"S": "s"}}}`,
			[]Call{{Action: "dynamodb:Query", Resource: theTable + "/index/l1_index", Context: keys("q")}}},
		{"dynamodb", "POST", "/", dynamo + "BatchGetItem", `{"RequestItems": {"t": {"Keys": [{"pk": {"S": "a"}}, {"pk": {"S": "b"}}]}}}`, []Call{{Action: "dynamodb:BatchGetItem", Resource: theTable, Context: keys("a", "b")}}},
		{"dynamodb", "POST", "/", dynamo + "BatchWriteItem", `{"RequestItems": {"t": [{"PutRequest": {"Item": {"pk": {"S": "a"}}}}, {"DeleteRequest": {"Key": {"pk": {"S": "b"}}}}]}}`,
			[]Call{{Action: "dynamodb:BatchWriteItem", Resource: theTable, Context: keys("a", "b")}}},
		{"dynamodb", "POST", "/", dynamo + "TransactWriteItems", `{"TransactItems": [{"Put": {"TableName": "t", "Item": {"pk": {"S": "a"}}}}, {"ConditionCheck": {"TableName": "t", "Key": {"pk": {"S": "b"}}}}]}`,
			[]Call{{Action: "dynamodb:PutItem", Resource: theTable, Context: keys("a")}, {Action: "dynamodb:ConditionCheckItem", Resource: theTable, Context: keys("b")}}},
		{"s3", "GET", "/b/o/k%20k?versionId=3", "", "", []Call{{Action: "s3:GetObjectVersion", Resource: bucket + "/o/k k"}}},
		{"s3", "GET", "/b/o/k?X-Amz-Signature=1&response-content-disposition=a", "", "", []Call{{Action: "s3:GetObject", Resource: bucket + "/o/k"}}},
		{"s3", "PUT", "/b/o/k?x-id=PutObject", "", "", []Call{{Action: "s3:PutObject", Resource: bucket + "/o/k"}}},
		{"s3", "PUT", "/b/o/k?partNumber=1&uploadId=2", "", "", []Call{{Action: "s3:PutObject", Resource: bucket + "/o/k", Parts: true}}},
		{"s3", "POST", "/b/o/k?uploads", "", "", []Call{{Action: "s3:PutObject", Resource: bucket + "/o/k", Parts: true}}},
		{"s3", "DELETE", "/b/o/k?uploadId=2", "", "", []Call{{Action: "s3:AbortMultipartUpload", Resource: bucket + "/o/k", Parts: true}}},
		{"s3", "GET", "/b/o/k?uploadId=2", "", "", []Call{{Action: "s3:ListMultipartUploadParts", Resource: bucket + "/o/k", Parts: true}}},
		{"s3", "DELETE", "/b/o/k?versionId=2", "", "", []Call{{Action: "s3:DeleteObjectVersion", Resource: bucket + "/o/k"}}},
		{"s3", "GET", "/b?list-type=2&prefix=o%2F", "", "", []Call{{Action: "s3:ListBucket", Resource: bucket, Context: prefix("o/")}}},
		{"s3", "HEAD", "/b", "", "", []Call{{Action: "s3:ListBucket", Resource: bucket, Context: prefix("")}}},
		{"s3", "POST", "/b?delete", "", `<Delete><Object><Key>a</Key></Object><Object><Key>b</Key><VersionId>1</VersionId></Object></Delete>`,
			[]Call{{Action: "s3:DeleteObject", Resource: bucket + "/a"}, {Action: "s3:DeleteObjectVersion", Resource: bucket + "/b"}}},
		{"sqs", "POST", "/", "AmazonSQS.SendMessageBatch", `{"QueueUrl": "http://h/1/q"}`, []Call{{Action: "sqs:SendMessage", Resource: "arn:aws:sqs:eu-west-1:1:q"}}},
		{"sqs", "POST", "/", "AmazonSQS.GetQueueUrl", `{"QueueName": "q"}`, []Call{{Action: "sqs:GetQueueUrl", Resource: "arn:aws:sqs:eu-west-1:1:q"}}},
		{"events", "POST", "/", "AWSEvents.PutEvents", `{"Entries": [{"EventBusName": "bus", "Source": "millrace"}, {"Source": "x"}]}`, []Call{
			{Action: "events:PutEvents", Resource: "arn:aws:events:eu-west-1:1:event-bus/bus", Context: Context{"events:source": {"millrace"}}},
			{Action: "events:PutEvents", Resource: "arn:aws:events:eu-west-1:1:event-bus/default", Context: Context{"events:source": {"x"}}}}},
		{"kms", "POST", "/", "TrentService.Decrypt", `{"KeyId": "k", "EncryptionContext": {"associatedData": "a"}}`, []Call{{Action: "kms:Decrypt", Resource: "arn:aws:kms:eu-west-1:1:key/k",
			Context: Context{"kms:EncryptionContext:associatedData": {"a"}, "kms:EncryptionContextKeys": {"associatedData"}}}}},
		{"secretsmanager", "POST", "/", "secretsmanager.GetSecretValue", `{"SecretId": "arn:s"}`, []Call{{Action: "secretsmanager:GetSecretValue", Resource: "arn:s"}}},
		{"ses", "POST", "/v2/email/outbound-emails", "", `{"FromEmailAddress": "Acme <a@acme.example>"}`, []Call{{Action: "ses:SendEmail", Resource: "arn:aws:ses:eu-west-1:1:identity/a@acme.example", Context: Context{"ses:FromAddress": {"a@acme.example"}}}}},
		{"lambda", "POST", "/2015-03-31/functions/f/invocations", "", `{}`, []Call{{Action: "lambda:InvokeFunction", Resource: "arn:aws:lambda:eu-west-1:1:function:f"}}},
		{"lambda", "POST", "/2015-03-31/functions/f%3Alive/invocations", "", `{}`, []Call{{Action: "lambda:InvokeFunction", Resource: "arn:aws:lambda:eu-west-1:1:function:f:live"}}},
		{"lambda", "POST", "/2015-03-31/functions/f/invocations?Qualifier=live", "", `{}`, []Call{{Action: "lambda:InvokeFunction", Resource: "arn:aws:lambda:eu-west-1:1:function:f:live"}}},
	} {
		got, err := Calls(here, c.service, send(c.method, c.url, c.target, c.body), []byte(c.body))
		if assert.NoError(t, err, c.target+c.url) {
			for i := range got {
				if len(got[i].Context) == 0 {
					got[i].Context = nil
				}
			}
			assert.Equal(t, c.want, got, c.target+c.url)
		}
	}
}

func TestHeadersOfWritesNeedPermissions(t *testing.T) {
	t.Parallel()
	for header, action := range map[string]string{
		"X-Amz-Object-Lock-Mode": "s3:PutObjectRetention", "X-Amz-Tagging": "s3:PutObjectTagging", "X-Amz-Bypass-Governance-Retention": "s3:BypassGovernanceRetention",
	} {
		r := send("PUT", "/b/k", "", "")
		r.Header.Set(header, "x")
		got, err := Calls(here, "s3", r, nil)
		require.NoError(t, err)
		require.Len(t, got, 2)
		assert.Equal(t, action, got[1].Action)
	}
	r := send("PUT", "/b/k", "", "")
	r.Header.Set("X-Amz-Copy-Source", "b/from%20here?versionId=1")
	got, err := Calls(here, "s3", r, nil)
	require.NoError(t, err)
	assert.Equal(t, Call{Action: "s3:GetObjectVersion", Resource: "arn:aws:s3:::b/from here"}, got[1])
}

func TestUnknownOperationsAreErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ service, method, url, target, body string }{
		{"iam", "POST", "/", "", ""}, {"dynamodb", "POST", "/", "DynamoDB_20120810.ExecuteStatement", "{}"}, {"dynamodb", "POST", "/", "DynamoDB_20120810.Scan", "{}"},
		{"dynamodb", "POST", "/", "DynamoDB_20120810.GetItem", `{"TableName": "t"}`}, {"dynamodb", "POST", "/", "DynamoDB_20120810.GetItem", "no JSON"},
		{"dynamodb", "POST", "/", "DynamoDB_20120810.Query", `{"KeyConditionExpression": "sk = :0"}`}, {"dynamodb", "POST", "/", "DynamoDB_20120810.TransactWriteItems", "{}"},
		{"dynamodb", "POST", "/", "DynamoDB_20120810.TransactWriteItems", `{"TransactItems": [{"Other": {}}]}`},
		{"s3", "GET", "/", "", ""}, {"s3", "GET", "/b/k?acl", "", ""}, {"s3", "PUT", "/b?policy", "", ""}, {"s3", "DELETE", "/b", "", ""}, {"s3", "PATCH", "/b/k", "", ""},
		{"sqs", "POST", "/", "AmazonSQS.DeleteQueue", "{}"}, {"events", "POST", "/", "AWSEvents.PutRule", "{}"}, {"kms", "POST", "/", "TrentService.ScheduleKeyDeletion", "{}"},
		{"secretsmanager", "POST", "/", "secretsmanager.PutSecretValue", "{}"}, {"ses", "GET", "/v2/email/identities", "", ""}, {"lambda", "GET", "/2015-03-31/functions/f", "", ""},
	} {
		_, err := Calls(here, c.service, send(c.method, c.url, c.target, c.body), []byte(c.body))
		assert.Error(t, err, c)
	}
}
