package events

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"
)

// ObjectQueue is the queue of the bucket's object events. A deployment always
// has it, the embedded server only if a function takes these events.
const ObjectQueue = "object-events"

// Object is an event of one object in a bucket. Events of one object may be
// delivered more than once and in any order.
type Object struct {
	Event     string    // e.g. "ObjectCreated:Put", "ObjectRemoved:DeleteMarkerCreated"
	Time      time.Time // of the request that caused it
	Bucket    string
	Key       string // decoded
	Size      int64  // in bytes; 0 if the object was removed
	ETag      string // without quotes; "" if the object was deleted
	VersionID string // "" in a bucket without versions
	Sequencer string // orders the events of one key; see [Object.After]
}

// Created reports whether the object was stored.
func (o Object) Created() bool { return strings.HasPrefix(o.Event, "ObjectCreated:") }

// Removed reports whether the object was deleted, or hidden by a delete marker.
func (o Object) Removed() bool { return strings.HasPrefix(o.Event, "ObjectRemoved:") }

// After reports whether the event is later than another of the same key.
// Sequencers are hexadecimal numbers of any length: the shorter one is padded
// with zeros on the right.
func (o Object) After(other Object) bool {
	n := max(len(o.Sequencer), len(other.Sequencer))
	fill := func(s string) string { return s + strings.Repeat("0", n-len(s)) }
	return fill(o.Sequencer) > fill(other.Sequencer)
}

// testEvent is the event that S3 sends to test a queue when a bucket is
// configured to use it.
const testEvent = "s3:TestEvent"

// objectMessage is the body of an S3 message, as far as it is used.
type objectMessage struct {
	Event   string         `json:",omitempty"` // only in a test event
	Records []objectRecord `json:",omitempty"`
}

type objectRecord struct {
	EventVersion string      `json:"eventVersion"`
	EventSource  string      `json:"eventSource"`
	AWSRegion    string      `json:"awsRegion"`
	EventTime    string      `json:"eventTime"`
	EventName    string      `json:"eventName"`
	S3           objectStory `json:"s3"`
}

type objectStory struct {
	SchemaVersion   string `json:"s3SchemaVersion"`
	ConfigurationID string `json:"configurationId"`
	Bucket          struct {
		Name string `json:"name"`
		ARN  string `json:"arn"`
	} `json:"bucket"`
	Object struct {
		Key       string `json:"key"` // form-encoded
		Size      int64  `json:"size,omitempty"`
		ETag      string `json:"eTag,omitempty"`
		VersionID string `json:"versionId,omitempty"`
		Sequencer string `json:"sequencer"`
	} `json:"object"`
}

// ReadObjects parses the body of a message of [ObjectQueue], which is an S3
// event (events.S3Event of aws-lambda-go). S3's test event has no objects. It
// fails if the body is not an S3 event; delivering it again does not help.
func ReadObjects(body string) ([]Object, error) {
	var m objectMessage
	if err := json.Unmarshal([]byte(body), &m); err != nil {
		return nil, fmt.Errorf("S3 event: %w", err)
	}
	if m.Event == testEvent {
		return nil, nil
	}
	if len(m.Records) == 0 {
		return nil, errors.New("S3 event: no records")
	}
	out := make([]Object, len(m.Records))
	for i, r := range m.Records {
		o, err := r.object()
		if err != nil {
			return nil, fmt.Errorf("S3 event: record %d: %w", i, err)
		}
		out[i] = o
	}
	return out, nil
}

func (r objectRecord) object() (Object, error) {
	key, err := url.QueryUnescape(r.S3.Object.Key)
	if err != nil {
		return Object{}, err
	}
	if r.EventName == "" || r.S3.Bucket.Name == "" || key == "" {
		return Object{}, errors.New("event, bucket or key is missing")
	}
	at, err := time.Parse(time.RFC3339, r.EventTime)
	if err != nil { // moto omits the time zone
		at, err = time.Parse("2006-01-02T15:04:05", r.EventTime)
	}
	if err != nil {
		return Object{}, err
	}
	return Object{
		Event: strings.TrimPrefix(r.EventName, "s3:"), Time: at.UTC(), Bucket: r.S3.Bucket.Name, Key: key,
		Size: r.S3.Object.Size, ETag: strings.Trim(r.S3.Object.ETag, `"`), VersionID: r.S3.Object.VersionID, Sequencer: r.S3.Object.Sequencer,
	}, nil
}

// WriteObject returns the message that S3 sends for an object in a region.
// Substitutes for S3 send it.
func WriteObject(region string, o Object) []byte {
	r := objectRecord{
		EventVersion: "2.1", EventSource: "aws:s3", AWSRegion: region,
		EventTime: o.Time.UTC().Format("2006-01-02T15:04:05.000Z"), EventName: o.Event,
	}
	r.S3.SchemaVersion, r.S3.ConfigurationID = "1.0", ObjectQueue
	r.S3.Bucket.Name, r.S3.Bucket.ARN = o.Bucket, "arn:aws:s3:::"+o.Bucket
	r.S3.Object.Key = strings.ReplaceAll(url.QueryEscape(o.Key), "%2F", "/")
	r.S3.Object.Size, r.S3.Object.ETag, r.S3.Object.VersionID, r.S3.Object.Sequencer = o.Size, o.ETag, o.VersionID, o.Sequencer
	body, err := json.Marshal(objectMessage{Records: []objectRecord{r}})
	if err != nil {
		panic(fmt.Sprintf("events: an event of S3 does not marshal: %v", err)) // only strings and numbers
	}
	return body
}
