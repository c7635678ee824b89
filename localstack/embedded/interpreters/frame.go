package interpreters

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"millrace/shared/sandbox"
)

// The kinds of frames; functions/sandbox/python/runner/local.py describes them.
const (
	frameSetup   = 'S'
	frameReady   = 'Y'
	frameRequest = 'Q'
	frameEvent   = 'E'
	frameOver    = 'U'
	frameOutput  = 'O'
	frameResult  = 'R'
)

// Bounds of what a child may send: user code can write to the descriptor too.
const (
	maxEventFrame  = 2 << 20
	maxResultFrame = 1 << 20
	maxOutputFrame = sandbox.MaxOutputBytes + 1
)

var errProtocol = errors.New("the interpreter broke the protocol")

// appendFrame appends a frame of a kind with the JSON of v to buf.
func appendFrame(buf *bytes.Buffer, kind byte, v any) error {
	start := buf.Len()
	buf.Write([]byte{0, 0, 0, 0, kind})
	if err := json.NewEncoder(buf).Encode(v); err != nil {
		return err
	}
	binary.BigEndian.PutUint32(buf.Bytes()[start:], uint32(buf.Len()-start-4))
	return nil
}

// readFrame reads the next frame. The body is only valid until the next call,
// except that of an output frame, which is the caller's to keep.
func readFrame(r *bufio.Reader, scratch *bytes.Buffer) (kind byte, body []byte, err error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	size := int64(binary.BigEndian.Uint32(head[:4])) - 1
	bound := int64(maxResultFrame)
	switch head[4] {
	case frameEvent:
		bound = maxEventFrame
	case frameOutput:
		bound, scratch = maxOutputFrame, new(bytes.Buffer)
	case frameReady, frameResult, frameOver:
	default:
		return 0, nil, fmt.Errorf("%w: frame of kind %q", errProtocol, head[4])
	}
	if size < 0 || size > bound {
		return 0, nil, fmt.Errorf("%w: frame of %d bytes", errProtocol, size)
	}
	scratch.Reset()
	// Memory follows what arrives, not what the length claims.
	if size <= 1<<20 {
		scratch.Grow(int(size))
	}
	if _, err := io.CopyN(scratch, r, size); err != nil {
		return 0, nil, err
	}
	return head[4], scratch.Bytes(), nil
}

// request is the body of a request frame.
type request struct {
	RunID       string                     `json:"run_id"`
	FlowName    string                     `json:"flow_name"`
	FlowVersion string                     `json:"flow_version"`
	TaskName    string                     `json:"task_name"`
	TaskRunID   string                     `json:"task_run_id"`
	Attempt     int                        `json:"attempt"`
	MapIndex    *int                       `json:"map_index,omitempty"`
	Item        json.RawMessage            `json:"item,omitempty"`
	Entrypoint  string                     `json:"entrypoint"`
	Inputs      map[string]sandbox.Input   `json:"inputs,omitempty"`
	Params      map[string]json.RawMessage `json:"params,omitempty"`
	Secrets     map[string]string          `json:"secrets,omitempty"`
	TimeoutSecs float64                    `json:"timeout_secs"`
	OutputURL   string                     `json:"output_url,omitempty"`
	TraceParent string                     `json:"traceparent,omitempty"`
}

func encodeRequest(buf *bytes.Buffer, req *sandbox.Request, timeout time.Duration) error {
	return appendFrame(buf, frameRequest, request{
		RunID: req.RunID, FlowName: req.FlowName, FlowVersion: req.FlowVersion,
		TaskName: req.TaskName, TaskRunID: req.TaskRunID, Attempt: req.Attempt,
		MapIndex: req.MapIndex, Item: req.Item, Entrypoint: req.Entrypoint,
		Inputs: req.Inputs, Params: req.Params, Secrets: req.Secrets,
		TimeoutSecs: timeout.Seconds(), OutputURL: req.OutputURL, TraceParent: req.TraceParent,
	})
}

// answer is the body of a result frame.
type answer struct {
	Failure     *sandbox.Failure `json:"failure"`
	OutputRef   bool             `json:"output_ref"`
	OutputBytes int64            `json:"output_bytes"`
	Recycle     bool             `json:"recycle"`
	Error       string           `json:"error"`
}

// decodeEvent decodes an event frame: [seconds, level, logger, message].
func decodeEvent(body []byte) (sandbox.LogEvent, error) {
	var seconds float64
	var e sandbox.LogEvent
	fields := []any{&seconds, &e.Level, &e.Logger, &e.Message}
	if err := json.Unmarshal(body, &fields); err != nil {
		return e, fmt.Errorf("%w: event: %w", errProtocol, err)
	}
	if len(fields) != 4 {
		return e, fmt.Errorf("%w: event of %d fields", errProtocol, len(fields))
	}
	e.Time = time.UnixMicro(int64(seconds * 1e6)).UTC()
	return e, nil
}
