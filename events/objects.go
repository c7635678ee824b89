package events

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"
)

// ObjectQueue is the queue of what happens to the objects of the bucket. A
// deployment has it from the start, the embedded server if a function takes these
// events.
const ObjectQueue = "object-events"

// Object is what happened to one object of a bucket. Events of one object may
// come twice, and in any order.
type Object struct {
	Event     string    // e.g. "ObjectCreated:Put", "ObjectRemoved:DeleteMarkerCreated"
	Time      time.Time // of the request that did it
	Bucket    string
	Key       string // as the object is named
	Size      int64  // in bytes; 0 of one that was removed
	ETag      string // without quotes; "" of one that was deleted
	VersionID string // "" in a bucket without versions
	Sequencer string // orders the events of one key: see [Object.After]
}

// Created reports whether the object was stored.
func (o Object) Created() bool { return strings.HasPrefix(o.Event, "ObjectCreated:") }

// Removed reports whether the object was deleted, or hidden by a delete marker.
func (o Object) Removed() bool { return strings.HasPrefix(o.Event, "ObjectRemoved:") }

// After reports whether the event came after another of the same key. Sequencers
// are hexadecimal numbers of any length: the shorter one is filled up with zeros
// at its end.
func (o Object) After(other Object) bool {
	n := max(len(o.Sequencer), len(other.Sequencer))
	fill := func(s string) string { return s + strings.Repeat("0", n-len(s)) }
	return fill(o.Sequencer) > fill(other.Sequencer)
}

// testEvent is what S3 sends when a bucket is told of a queue, to try it.
const testEvent = "s3:TestEvent"

// objectMessage is the body of a message of S3, as far as it is of use.
type objectMessage struct {
	Event   string         `json:",omitempty"` // of a trial
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

// ReadObjects reads the body of a message of [ObjectQueue], which is an event of
// S3 (events.S3Event of aws-lambda-go). The message by which S3 tries the queue
// has no objects. Errors: a body that is no event of S3, which will not become
// one when it is delivered again.
func ReadObjects(body string) ([]Object, error) {
	var m objectMessage
	if err := json.Unmarshal([]byte(body), &m); err != nil {
		return nil, fmt.Errorf("event of S3: %w", err)
	}
	if m.Event == testEvent {
		return nil, nil
	}
	if len(m.Records) == 0 {
		return nil, errors.New("event of S3: it has no records")
	}
	out := make([]Object, len(m.Records))
	for i, r := range m.Records {
		o, err := r.object()
		if err != nil {
			return nil, fmt.Errorf("event of S3: record %d: %w", i, err)
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
	if err != nil { // moto leaves the zone out
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

// WriteObject writes the message that S3 sends of an object in a region: what
// stands in for S3 sends it.
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
		panic(fmt.Sprintf("events: an event of S3 does not marshal: %v", err)) // it has texts and numbers alone
	}
	return body
}
