package server

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	lambda "github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/events"
	"millrace/functions/catalog"
	"millrace/localstack/client"
	"millrace/localstack/embedded/signin"
	"millrace/shared/platform/blob"
	"millrace/shared/web/fn"
)

// TestFunctionReceivesBucketEvents checks that a function receives S3's
// messages for the objects selected in its spec. A process can run one server
// at a time, so the test is not parallel.
func TestFunctionReceivesBucketEvents(t *testing.T) {
	var store blob.Store
	got := make(chan events.Object, 10)
	counter := fn.Spec{
		Name: "parcel-counter", Doc: "Counts parcels.", MemoryMB: 256, Timeout: time.Minute,
		Trigger: fn.Trigger{Objects: fn.ObjectTrigger{
			Events: []fn.ObjectEvent{fn.ObjectCreated, fn.ObjectRemoved}, Prefix: "org_", Suffix: ".parcel",
		}},
		Messages: func(d fn.Deps) fn.MessageHandler {
			store = d.Blob
			return func(_ context.Context, batch lambda.SQSEvent) (lambda.SQSEventResponse, error) {
				for _, m := range batch.Records {
					assert.Equal(t, "arn:aws:sqs:local:000000000000:object-events", m.EventSourceARN)
					objects, err := events.ReadObjects(m.Body)
					assert.NoError(t, err)
					for _, o := range objects {
						got <- o
					}
				}
				return lambda.SQSEventResponse{}, nil
			}
		},
	}
	s, err := open(t.Context(), Config{
		Dir: t.TempDir(), Listen: "127.0.0.1:0", NoTick: true, Log: slog.New(slog.DiscardHandler),
	}, append(slices.DeleteFunc(catalog.All(), func(s fn.Spec) bool { return s.Name == "object-events" }), counter))
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-done)
	})

	const key = "org_1/in/März 1+1.parcel"
	put, err := blob.PutBytes(t.Context(), store, key, []byte("12345"), blob.PutOptions{})
	require.NoError(t, err)
	created := <-got
	assert.True(t, created.Created())
	assert.Equal(t, []any{bucket, key, int64(5), put.ETag}, []any{created.Bucket, created.Key, created.Size, created.ETag})
	assert.WithinDuration(t, time.Now(), created.Time, time.Minute)

	for _, other := range []string{"org_1/in/letter", "other/a.parcel"} {
		_, err := blob.PutBytes(t.Context(), store, other, nil, blob.PutOptions{})
		require.NoError(t, err)
	}
	require.NoError(t, store.Delete(t.Context(), key))
	removed := <-got
	assert.True(t, removed.Removed(), "%+v", removed)
	assert.Equal(t, key, removed.Key)
	assert.True(t, removed.After(created))
	assert.Empty(t, got)
}

// TestUsersBucketStartsRuns stores objects in a bucket of a user's own with the
// keys of credentials.json, and then in the server's own bucket.
func TestUsersBucketStartsRuns(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(t.Context(), Config{Dir: dir, Listen: "127.0.0.1:0", NoTick: true, Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-done)
	})
	c := s.Credentials()
	var stored signin.Credentials
	data, err := os.ReadFile(filepath.Join(dir, signin.CredentialsFile))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &stored))
	assert.Equal(t, c, stored)
	require.NotEmpty(t, c.S3URL)

	api := client.Client{BaseURL: c.BaseURL, Token: c.APIKey}
	type object = map[string]any
	require.NoError(t, api.Do(t.Context(), http.MethodPost, "/flows", object{"flow_name": "load", "flow_version": "1", "flow_spec": object{
		"tasks": []object{{"name": "one", "type": "transform", "config": object{"expression": "params"}}},
	}}, nil))
	sensor := object{"name": "landed", "sensor_type": "objstore", "flow_name": "load", "config_json": object{"bucket": "landing", "suffix": ".csv"}}
	require.NoError(t, api.Do(t.Context(), http.MethodPost, "/sensors", sensor, nil))
	sensor["config_json"] = object{"bucket": bucket}
	require.Error(t, api.Do(t.Context(), http.MethodPost, "/sensors", sensor, nil))

	users := awss3.New(awss3.Options{
		Region: "us-east-1", BaseEndpoint: &c.S3URL, UsePathStyle: true,
		Credentials: credentials.NewStaticCredentialsProvider(c.AWSAccessKeyID, c.AWSSecretAccessKey, ""),
	})
	landing := new("landing")
	_, err = users.CreateBucket(t.Context(), &awss3.CreateBucketInput{Bucket: landing})
	require.NoError(t, err)
	for _, key := range []string{"a.txt", "März 1+1.csv"} {
		_, err = users.PutObject(t.Context(), &awss3.PutObjectInput{Bucket: landing, Key: &key, Body: strings.NewReader("1")})
		require.NoError(t, err)
	}
	var list struct {
		Items []struct {
			RunID   string `json:"run_id"`
			Trigger string `json:"trigger_source"`
		} `json:"items"`
	}
	require.Eventually(t, func() bool {
		return assert.NoError(t, api.Do(t.Context(), http.MethodGet, "/runs", nil, &list)) && len(list.Items) == 1
	}, 2*time.Minute, 20*time.Millisecond)
	assert.Equal(t, "sensor", list.Items[0].Trigger)
	var run struct {
		Parameters map[string]string `json:"parameters"`
	}
	require.NoError(t, api.Do(t.Context(), http.MethodGet, "/runs/"+list.Items[0].RunID, nil, &run))
	assert.Equal(t, map[string]string{"objstore_bucket": "landing", "objstore_key": "März 1+1.csv"}, run.Parameters)
}
