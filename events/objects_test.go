package events_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	lambda "github.com/aws/aws-lambda-go/events"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/events"
)

// readMessages reads a sample as an event function does: S3 events in the
// bodies of SQS messages.
func readMessages(t *testing.T, file string) []string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", file))
	require.NoError(t, err)
	var bodies []string
	for _, record := range strict[lambda.SQSEvent](t, data).Records {
		bodies = append(bodies, record.Body)
	}
	return bodies
}

func TestReadObjects(t *testing.T) {
	t.Parallel()
	bodies := readMessages(t, "object-events.json")
	require.Len(t, bodies, 3)
	trial, err := events.ReadObjects(bodies[0])
	require.NoError(t, err)
	assert.Empty(t, trial, "S3 tries the queue")

	created, err := events.ReadObjects(bodies[1])
	require.NoError(t, err)
	assert.Equal(t, []events.Object{{
		Event: "ObjectCreated:CompleteMultipartUpload", Time: time.Date(2026, 11, 21, 9, 30, 0, 123e6, time.UTC),
		Bucket: "millrace-acme-prod-123456789012-eu-west-1", Key: "org_01KAJ2J3V4W5X6Y7Z8A9B0C1D2/uploads/März 1+1.csv",
		Size: 1024, ETag: "d41d8cd98f00b204e9800998ecf8427e-2", VersionID: "096fKKXTRTtl3on89fVO.nfljtsv6qko", Sequencer: "0055AED6DCD90281E5",
	}}, created)
	assert.True(t, created[0].Created())
	assert.False(t, created[0].Removed())

	removed, err := events.ReadObjects(bodies[2])
	require.NoError(t, err)
	require.Len(t, removed, 2)
	for _, o := range removed {
		assert.True(t, o.Removed())
		assert.False(t, o.Created())
		assert.Zero(t, o.Size)
	}
	assert.True(t, removed[0].After(created[0]))
	assert.False(t, created[0].After(removed[0]))
}

func TestReadObjectsRejectsOtherBodies(t *testing.T) {
	t.Parallel()
	record := func(name, bucket, key, at string) string {
		return `{"Records": [{"eventName": "` + name + `", "eventTime": "` + at + `", "s3": {"bucket": {"name": "` + bucket + `"}, "object": {"key": "` + key + `"}}}]}`
	}
	const now = "2026-11-21T09:30:00.000Z"
	for body, want := range map[string]string{
		"":                                 "unexpected end",
		"{}":                               "no records",
		`{"kind": "look"}`:                 "no records",
		record("", "b", "k", now):          "record 0: event, bucket or key",
		record("x", "", "k", now):          "record 0: event, bucket or key",
		record("x", "b", "", now):          "record 0: event, bucket or key",
		record("x", "b", "%zz", now):       `invalid URL escape "%zz"`,
		record("x", "b", "k", "yesterday"): "cannot parse",
	} {
		_, err := events.ReadObjects(body)
		assert.ErrorContains(t, err, want, body)
	}
	got, err := events.ReadObjects(record("s3:ObjectCreated:Put", "b", "k", "2026-11-21T09:30:00.250000"))
	require.NoError(t, err, "a time without a zone")
	assert.Equal(t, 250*time.Millisecond, time.Duration(got[0].Time.Nanosecond()))
	assert.True(t, got[0].Created())
}

// TestWriteObject checks that the result is parsed correctly by this package
// and by Lambda's type of the S3 event.
func TestWriteObject(t *testing.T) {
	t.Parallel()
	for i, key := range []string{"a", "org_1/runs/R/log", "/", " ", "a b+c%20d", "März/ü", "\x00\n\"'<&>", "?#=&;:@,$!*()[]{}|^~`", "😀/😀", "a//b/../c"} {
		want := events.Object{
			Event: "ObjectCreated:Put", Time: time.UnixMilli(1795253400123 + int64(i)).UTC(), Bucket: "b-1", Key: key,
			Size: int64(i) << 40, ETag: "d41d8cd98f00b204e9800998ecf8427e", VersionID: "v", Sequencer: "0055AED6DCD90281E5",
		}
		body := events.WriteObject("local", want)
		got, err := events.ReadObjects(string(body))
		require.NoError(t, err, key)
		require.Equal(t, []events.Object{want}, got)

		var event lambda.S3Event
		require.NoError(t, json.Unmarshal(body, &event))
		require.Len(t, event.Records, 1)
		r := event.Records[0]
		assert.Equal(t, []string{"aws:s3", "local", want.Event, "arn:aws:s3:::b-1"}, []string{r.EventSource, r.AWSRegion, r.EventName, r.S3.Bucket.Arn})
		assert.Equal(t, []any{key, want.Size, want.ETag}, []any{r.S3.Object.URLDecodedKey, r.S3.Object.Size, r.S3.Object.ETag})
		assert.True(t, want.Time.Equal(r.EventTime))
	}
	assert.Contains(t, string(events.WriteObject("local", events.Object{Bucket: "b", Key: "a b/c+d%ü"})), `"key":"a+b/c%2Bd%25%C3%BC"`, "as S3 writes keys")
}

func TestObjectAfter(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b  string
		after bool
	}{
		{"0055AED6DCD90281E6", "0055AED6DCD90281E5", true},
		{"0055AED6DCD90281E5", "0055AED6DCD90281E5", false},
		{"0055AED6DCD90281E501", "0055AED6DCD90281E5", true},
		{"0055AED6DCD90281E5", "0055AED6DCD90281E501", false},
		{"0056", "0055AED6DCD90281E5", true},
	} {
		assert.Equal(t, c.after, events.Object{Sequencer: c.a}.After(events.Object{Sequencer: c.b}), "%s after %s", c.a, c.b)
	}
}

func FuzzReadObjects(f *testing.F) {
	f.Add(string(events.WriteObject("local", events.Object{Event: "ObjectCreated:Put", Bucket: "b", Key: "a b"})))
	f.Add(`{"Event": "s3:TestEvent"}`)
	f.Fuzz(func(t *testing.T, body string) {
		objects, err := events.ReadObjects(body)
		for _, o := range objects {
			assert.NoError(t, err)
			assert.False(t, o.Created() && o.Removed())
			assert.NotEmpty(t, o.Key)
		}
	})
}
