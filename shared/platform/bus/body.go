package bus

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"millrace/shared/platform/clock"
)

// body is the detail of an event on the bus: the event's own detail, and fields
// that EventBridge's envelope has no place for or that it rewrites when the
// event is published again.
type body struct {
	ID        string          `json:"id"`
	Type      string          `json:"type"`
	Version   int             `json:"version"`
	Org       string          `json:"org_id"`
	Time      string          `json:"time"` // RFC 3339, milliseconds
	DedupeKey string          `json:"dedupe_key"`
	Data      json.RawMessage `json:"data"`
}

// digestChars is the length of a dedupe key that is a digest.
const digestChars = 32

func (e Event) body(data json.RawMessage) body {
	return body{ID: e.ID, Type: e.DetailType, Version: max(e.Version, 1), Org: e.Workspace, Time: clock.Format(e.Time), DedupeKey: e.DedupeKey, Data: data}
}

// Complete returns the event with its empty fields filled in, and with id if it
// has none. A driver completes an event once, before it first sends it.
func (e Event) Complete(now time.Time, id string) Event {
	if e.Time.IsZero() {
		e.Time = now
	}
	if e.ID == "" {
		e.ID = id
	}
	if e.DedupeKey == "" {
		sum := sha256.Sum256(e.Detail)
		e.DedupeKey = hex.EncodeToString(sum[:])[:digestChars]
	}
	e.Version = max(e.Version, 1)
	return e
}

// Body returns the detail of a completed event as it is on the bus. It fails if
// the event's own detail is not JSON.
func (e Event) Body() (json.RawMessage, error) {
	// Not json.Marshal: its HTML escapes could make a detail six times as long.
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(e.body(e.Detail)); err != nil {
		return nil, fmt.Errorf("bus: event %s: %w", e.DetailType, err)
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

// Event returns the event that was published. It returns ErrMalformed, wrapped
// with the reason, if the envelope does not hold an event of the service.
func (e Envelope) Event() (Event, error) {
	var b body
	if err := json.Unmarshal(e.Detail, &b); err != nil {
		return Event{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	at, err := time.Parse(time.RFC3339, b.Time)
	switch {
	case err != nil:
		return Event{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	case b.Type != e.DetailType || b.Org != e.Workspace():
		return Event{}, fmt.Errorf("%w: %q of workspace %q in the envelope of another", ErrMalformed, b.Type, b.Org)
	case b.ID == "" || b.DedupeKey == "" || b.Version < 1:
		return Event{}, fmt.Errorf("%w: no id, dedupe key or version", ErrMalformed)
	case !isObject(b.Data):
		return Event{}, fmt.Errorf("%w: data is no object", ErrMalformed)
	}
	return Event{
		DetailType: b.Type, Detail: b.Data, Workspace: b.Org, Time: at.UTC(), ID: b.ID, Version: b.Version, DedupeKey: b.DedupeKey,
	}, nil
}
