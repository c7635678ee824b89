package interpreters

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"millrace/shared/run/sandbox"
)

// The kinds of frames, which functions/sandbox/python/runner/local.py
// describes.
const (
	frameSetup   = 'S'
	frameReady   = 'Y'
	frameRequest = 'Q'
	frameEvent   = 'E'
	frameReached = 'B'
	frameOver    = 'U'
	frameOutput  = 'O'
	frameResult  = 'R'
	frameFetch   = 'F'
	frameInput   = 'I'
	frameNoInput = 'N'
	frameSave    = 'P'
	frameSaved   = 'K'
	frameOpen    = 'G'
)

// Steps of an attempt, as a frameReached reports them.
const (
	reachedInputs   = "inputs"
	reachedFunction = "function"
)

// Limits of a child's frames: user code can write to the descriptor, too.
const (
	maxEventFrame  = 2 << 20
	maxResultFrame = 1 << 20
	maxOutputFrame = sandbox.MaxOutputBytes + 1
	maxSaveFrame   = sandbox.MaxFileBytes
)

var (
	errProtocol     = errors.New("the interpreter broke the protocol")
	errOtherAttempt = fmt.Errorf("%w: frame of another attempt", errProtocol)
)

// nonce identifies the setup or the attempt that a frame belongs to. The server
// generates it, and the interpreter repeats it in every frame of its answer.
// Code of an attempt can find its own nonce, for which it may answer, but never
// a later one.
type nonce [16]byte

func newNonce() (n nonce) {
	_, _ = rand.Read(n[:]) // it never fails
	return n
}

// head is the size of a frame before its body: length, kind, nonce.
const head = 4 + 1 + len(nonce{})

// appendFrame appends a frame of a kind with v as JSON to buf.
func appendFrame(buf *bytes.Buffer, kind byte, n nonce, v any) error {
	start := buf.Len()
	buf.Write([]byte{0, 0, 0, 0, kind})
	buf.Write(n[:])
	if err := json.NewEncoder(buf).Encode(v); err != nil {
		return err
	}
	binary.BigEndian.PutUint32(buf.Bytes()[start:], uint32(buf.Len()-start-4))
	return nil
}

// readHead reads the next frame up to its body and returns the body's size. The
// frame must repeat the nonce.
func readHead(r *bufio.Reader, n nonce) (kind byte, size int64, err error) {
	start, err := r.Peek(head)
	if err != nil {
		return 0, 0, err
	}
	size = int64(binary.BigEndian.Uint32(start)) - int64(head-4)
	kind = start[4]
	bound := int64(maxResultFrame)
	switch kind {
	case frameEvent:
		bound = maxEventFrame
	case frameOutput:
		bound = maxOutputFrame
	case frameSave:
		bound = maxSaveFrame
	case frameReady, frameResult, frameReached, frameOver, frameFetch, frameOpen:
	default:
		return 0, 0, fmt.Errorf("%w: frame of kind %q", errProtocol, kind)
	}
	if !bytes.Equal(start[5:], n[:]) { //guard:sandbox/nonce drop
		return 0, 0, errOtherAttempt
	}
	if size < 0 || size > bound {
		return 0, 0, fmt.Errorf("%w: frame of %d bytes", errProtocol, size)
	}
	_, _ = r.Discard(head)
	return kind, size, nil
}

// readBody reads the body of a frame into scratch. It is valid until scratch is
// used again.
func readBody(r *bufio.Reader, size int64, scratch *bytes.Buffer) ([]byte, error) {
	scratch.Reset()
	// Allocate what arrives, not what the length claims.
	if size <= 1<<20 {
		scratch.Grow(int(size))
	}
	if _, err := io.CopyN(scratch, r, size); err != nil {
		return nil, err
	}
	return scratch.Bytes(), nil
}

// request is the body of a request frame.
type request struct {
	*sandbox.Request
	Inputs      map[string]input `json:"inputs,omitempty"`
	TimeoutSecs float64          `json:"timeout_secs"`
	ImportSecs  float64          `json:"import_timeout_secs"`
	Begun       bool             `json:"begun,omitempty"` // the function's time counts from now, see [interpreter.begins]
}

// input is a value, or the name by which to fetch it.
type input struct {
	Value json.RawMessage `json:"value,omitempty"`
	Fetch string          `json:"fetch,omitempty"`
}

// encodeRequest appends a request. It contains no links: the child fetches
// inputs and sends outputs by frames.
func encodeRequest(buf *bytes.Buffer, n nonce, req *sandbox.Request, timeout, importing time.Duration, begun bool) error {
	var inputs map[string]input
	if len(req.Inputs) > 0 {
		inputs = make(map[string]input, len(req.Inputs))
	}
	for name, in := range req.Inputs {
		if in.URL == nil {
			inputs[name] = input{Value: in.Value}
		} else {
			inputs[name] = input{Fetch: name}
		}
	}
	return appendFrame(buf, frameRequest, n, request{Request: req, Inputs: inputs, TimeoutSecs: timeout.Seconds(), ImportSecs: importing.Seconds(), Begun: begun})
}

// answer is the body of a result frame.
type answer struct {
	Failure *sandbox.Failure `json:"failure"`
	Recycle bool             `json:"recycle"`
	Error   string           `json:"error"`
}

const maxLogger = 200 // bytes; task code may have forged it

var levels = []string{"debug", "info", "warning", "error", "critical"}

// decodeEvent decodes an event frame: [seconds, level, logger, message], and an
// object of the fields passed to ctx.log, if any. Values that the runner never
// sends are replaced by defaults: the current time, the level info.
func decodeEvent(body []byte, now time.Time) (sandbox.LogEvent, error) {
	var seconds float64
	var e sandbox.LogEvent
	fields := []any{&seconds, &e.Level, &e.Logger, &e.Message, &e.Fields}
	if err := json.Unmarshal(body, &fields); err != nil {
		return e, fmt.Errorf("%w: event: %w", errProtocol, err)
	}
	if len(fields) != 4 && len(fields) != 5 {
		return e, fmt.Errorf("%w: event of %d fields", errProtocol, len(fields))
	}
	e.Time = now
	if math.Abs(seconds-float64(now.Unix())) < 3600 {
		e.Time = time.UnixMicro(int64(seconds * 1e6)).UTC()
	}
	if !slices.Contains(levels, e.Level) {
		e.Level = "info"
	}
	if len(e.Fields) > sandbox.MaxFields || !bytes.HasPrefix(e.Fields, []byte("{")) {
		e.Fields = nil
	}
	e.Logger = clip(e.Logger, maxLogger)
	return e, nil
}

// clip truncates a text to most bytes, between characters.
func clip(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}
