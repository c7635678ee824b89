package bus

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"millrace/shared/platform/ids"
)

// Envelope is an event as a function receives it: EventBridge's JSON, the same
// as events.EventBridgeEvent of aws-lambda-go.
type Envelope struct {
	Version    string          `json:"version"` // "0"
	ID         string          `json:"id"`      // the same for every rule and every delivery
	DetailType string          `json:"detail-type"`
	Source     string          `json:"source"`
	Account    string          `json:"account"`
	Time       time.Time       `json:"time"` // whole seconds
	Region     string          `json:"region"`
	Resources  []string        `json:"resources"`
	Detail     json.RawMessage `json:"detail"`
}

// ErrMalformed means that the input is not the envelope of an event. It is
// wrapped with the reason.
var ErrMalformed = errors.New("bus: malformed envelope")

// resourcePrefix marks the resource that names the event's workspace.
const resourcePrefix = "workspace/"

// DecodeEnvelope decodes the JSON that a function receives. It ignores unknown
// fields, because AWS may add some.
func DecodeEnvelope(data []byte) (Envelope, error) {
	var e Envelope
	if err := json.Unmarshal(data, &e); err != nil {
		return Envelope{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	switch {
	case e.DetailType == "":
		return Envelope{}, fmt.Errorf("%w: no detail-type", ErrMalformed)
	case e.ID == "":
		return Envelope{}, fmt.Errorf("%w: no id", ErrMalformed)
	case !isObject(e.Detail):
		return Envelope{}, fmt.Errorf("%w: detail is no object", ErrMalformed)
	}
	return e, nil
}

// Workspace returns the workspace of the event, or "" if it has none.
func (e Envelope) Workspace() string {
	for _, resource := range e.Resources {
		if workspace, ok := strings.CutPrefix(resource, resourcePrefix); ok {
			return workspace
		}
	}
	return ""
}

// Resources returns the event's resources: its workspace.
func (e Event) Resources() []string {
	if e.Workspace == "" {
		return []string{}
	}
	return []string{resourcePrefix + e.Workspace}
}

// Size returns the size of the event in bytes, as EventBridge counts it.
func (e Event) Size() int {
	sized := e
	if e.Time.IsZero() {
		sized.Time = time.UnixMilli(1)
	}
	head, err := json.Marshal(sized.body(nil))
	if err != nil {
		panic(fmt.Sprintf("bus: the head of an event does not marshal: %v", err)) // only strings and numbers
	}
	n := len(Source) + len(e.DetailType) + len(head) - len("null") + len(e.Detail) + 14
	if e.ID == "" {
		n += len(ids.First(time.Time{}))
	}
	if e.DedupeKey == "" {
		n += digestChars
	}
	for _, resource := range e.Resources() {
		n += len(resource)
	}
	return n
}

const (
	maxDetailType = 128 // characters, EventBridge's limit
	maxKey        = 256 // bytes of an id or a dedupe key
)

// Check returns ErrLimit, wrapped with the reason, if a driver could not
// publish the event.
func (e Event) Check() error {
	switch {
	case e.DetailType == "" || len(e.DetailType) > maxDetailType:
		return fmt.Errorf("%w: detail type of %d characters, 1 to %d allowed", ErrLimit, len(e.DetailType), maxDetailType)
	case e.Size() > MaxEntry:
		return fmt.Errorf("%w: event %s of %d bytes, %d allowed", ErrLimit, e.DetailType, e.Size(), MaxEntry)
	case len(e.ID) > maxKey || len(e.DedupeKey) > maxKey:
		return fmt.Errorf("%w: id or dedupe key of %s of more than %d bytes", ErrLimit, e.DetailType, maxKey)
	case e.Version < 0:
		return fmt.Errorf("%w: version %d of %s", ErrLimit, e.Version, e.DetailType)
	case !isObject(e.Detail) || !json.Valid(e.Detail):
		return fmt.Errorf("%w: detail of %s is no JSON object", ErrLimit, e.DetailType)
	}
	return nil
}

func isObject(detail []byte) bool {
	return bytes.HasPrefix(bytes.TrimLeft(detail, " \t\r\n"), []byte("{"))
}
