package server

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	lambda "github.com/aws/aws-lambda-go/events"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/events"
	"millrace/functions/catalog"
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
