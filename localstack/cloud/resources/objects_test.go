package resources_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	lambda "github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/events"
	"millrace/localstack/cloud/resources"
	"millrace/localstack/cloud/template"
	"millrace/localstack/cloud/triggers"
)

// objectEvents loads the resources of a function that receives bucket events,
// with unique names and with a function.
func objectEvents(t *testing.T, name string) *template.Assembly {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "..", "infra", "testdata", "object-events.json"))
	require.NoError(t, err)
	var stack struct{ Resources map[string]any }
	require.NoError(t, json.Unmarshal([]byte(strings.ReplaceAll(string(data), "millrace-acme-prod", name)), &stack))
	stack.Resources["ParcelCounterFunction"] = map[string]any{"Type": "AWS::Lambda::Function", "Properties": map[string]any{
		"FunctionName": name + "-parcel-counter", "Runtime": "provided.al2023", "Handler": "parcel-counter",
	}}
	stack.Resources["ParcelCounterLive"] = map[string]any{"Type": "AWS::Lambda::Alias", "Properties": map[string]any{
		"FunctionName": name + "-parcel-counter", "Name": "live", "FunctionVersion": "1",
	}}
	data, err = json.Marshal(stack)
	require.NoError(t, err)
	a, err := template.Load(fstest.MapFS{"data.template.json": &fstest.MapFile{Data: data}})
	require.NoError(t, err)
	return a
}

// TestBucketNotifiesQueue: with the resources of its trigger, a function
// receives S3's events for the selected objects, as on AWS.
func TestBucketNotifiesQueue(t *testing.T) {
	t.Parallel()
	on, name := where(t), unique()
	d, err := resources.Make(t.Context(), objectEvents(t, name), on)
	require.NoError(t, err)
	require.Len(t, d.Buckets, 1)
	require.Len(t, d.Mappings, 1)
	m := d.Mappings[0]
	assert.Equal(t, resources.Mapping{Queue: name + "-" + events.ObjectQueue, Function: name + "-parcel-counter", Batch: 10, Partial: true}, m)

	bucket := &d.Buckets[0]
	put := func(key string) *string {
		out, err := on.S3.PutObject(t.Context(), &s3.PutObjectInput{Bucket: bucket, Key: &key, Body: strings.NewReader("12345")})
		require.NoError(t, err)
		return out.VersionId
	}
	key, copied := "org_1/in/März 1+1.parcel", "org_1/copy.parcel"
	version := put(key)
	put("org_1/in/letter") // without the suffix
	put("other/a.parcel")  // without the prefix
	source := *bucket + "/org_1/in/M%C3%A4rz%201%2B1.parcel"
	_, err = on.S3.CopyObject(t.Context(), &s3.CopyObjectInput{Bucket: bucket, Key: &copied, CopySource: &source})
	require.NoError(t, err)
	_, err = on.S3.DeleteObject(t.Context(), &s3.DeleteObjectInput{Bucket: bucket, Key: &key, VersionId: version})
	require.NoError(t, err)

	var got []string
	trials := 0
	tr := triggers.New(triggers.Config{
		SQS: func(string) *sqs.Client { return on.SQS }, Region: on.Region, AccountID: on.AccountID, Log: slog.New(slog.DiscardHandler),
		Invoke: func(_ context.Context, _ string, payload []byte) ([]byte, error) {
			var batch lambda.SQSEvent
			if err := json.Unmarshal(payload, &batch); err != nil {
				return nil, err
			}
			for _, message := range batch.Records {
				objects, err := events.ReadObjects(message.Body)
				if err != nil {
					return nil, err
				}
				if len(objects) == 0 {
					trials++
				}
				for _, o := range objects {
					assert.Equal(t, []any{*bucket, int64(5), "827ccb0eea8a706c4c34a16891f84e7b"}, []any{o.Bucket, o.Size, o.ETag}, o.Key)
					got = append(got, o.Event+" "+o.Key)
				}
			}
			return json.Marshal(lambda.SQSEventResponse{})
		},
	})
	t.Cleanup(tr.Stop)
	for len(got) < 3 {
		n, err := tr.Deliver(t.Context(), m, 5)
		require.NoError(t, err)
		require.Positive(t, n, "only %v arrived", got)
	}
	assert.ElementsMatch(t, []string{"ObjectCreated:Put " + key, "ObjectCreated:Copy " + copied, "ObjectRemoved:Delete " + key}, got)
	assert.Equal(t, 1, trials, "S3 tries a queue when it is told of it")
}
