package telemetry

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2" // trace ids are not secret, and every request makes one
)

// The headers of W3C Trace Context: one that a request carries and passes on,
// and one with which a response names its trace.
const (
	TraceParent   = "Traceparent"
	TraceResponse = "Traceresponse"
)

// The trace flags that are passed on; others are not defined yet.
const (
	flagSampled = 1 // the sender may have recorded its part
	flagRandom  = 2 // of level 2: the trace id is random
	knownFlags  = flagSampled | flagRandom
)

// lenParent is the length of a traceparent of version 00.
const lenParent = len("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")

// Trace is a position in a distributed trace, as defined by W3C Trace Context:
// the trace, and the span that is the parent of what follows. The zero Trace
// means none.
type Trace struct {
	trace [16]byte
	span  [8]byte
	flags byte
}

// NewTrace begins a trace. It is marked as sampled, because the logs record it,
// so that services called by tasks record their part, too.
func NewTrace() Trace {
	t := Trace{flags: flagSampled}
	binary.BigEndian.PutUint64(t.trace[:8], rand.Uint64())
	binary.BigEndian.PutUint64(t.trace[8:], max(rand.Uint64(), 1))
	return t.Child()
}

// ParseTrace parses a traceparent header. ok is false if it is invalid, in
// which case a new trace should begin. Of later versions than 00 it reads the
// fields that 00 defines, as the specification requires.
func ParseTrace(header string) (Trace, bool) {
	if len(header) < lenParent || header[2] != '-' || header[35] != '-' || header[52] != '-' {
		return Trace{}, false
	}
	var t Trace
	var version, flags [1]byte
	if !lowerHex(version[:], header[:2]) || !lowerHex(t.trace[:], header[3:35]) ||
		!lowerHex(t.span[:], header[36:52]) || !lowerHex(flags[:], header[53:lenParent]) {
		return Trace{}, false
	}
	switch {
	case version[0] == 0xff || t.trace == [16]byte{} || t.span == [8]byte{}:
		return Trace{}, false
	case version[0] == 0 && len(header) > lenParent:
		return Trace{}, false
	case len(header) > lenParent && header[lenParent] != '-':
		return Trace{}, false
	}
	t.flags = flags[0] & knownFlags
	return t, true
}

// lowerHex decodes hex digits. The specification allows only lower case.
func lowerHex(dst []byte, src string) bool {
	for i := range dst {
		high, low := digit(src[2*i]), digit(src[2*i+1])
		if high > 15 || low > 15 {
			return false
		}
		dst[i] = high<<4 | low
	}
	return true
}

func digit(c byte) byte {
	switch {
	case c >= '0' && c <= '9':
		return c - '0'
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10
	}
	return 0xff
}

// IsZero reports whether there is no trace.
func (t Trace) IsZero() bool { return t.trace == [16]byte{} }

// Child returns a new span of the trace.
func (t Trace) Child() Trace {
	binary.BigEndian.PutUint64(t.span[:], max(rand.Uint64(), 1))
	return t
}

// Span returns the span of the trace for a name: always the same, so that it
// need not be stored. The zero Trace has none.
func (t Trace) Span(name string) Trace {
	if t.IsZero() {
		return t
	}
	h := uint64(14695981039346656037) // FNV-1a, without the allocations of hash/fnv
	for i := range len(name) {
		h = (h ^ uint64(name[i])) * 1099511628211
	}
	binary.BigEndian.PutUint64(t.span[:], max(h, 1))
	return t
}

// TraceID returns the trace id, in 32 hex digits.
func (t Trace) TraceID() string { return hex.EncodeToString(t.trace[:]) }

// SpanID returns the span id, in 16 hex digits.
func (t Trace) SpanID() string { return hex.EncodeToString(t.span[:]) }

// String returns the Trace as a traceparent of version 00, "" for the zero
// Trace.
func (t Trace) String() string {
	if t.IsZero() {
		return ""
	}
	b := make([]byte, 0, lenParent)
	b = append(b, "00-"...)
	b = hex.AppendEncode(b, t.trace[:])
	b = append(b, '-')
	b = hex.AppendEncode(b, t.span[:])
	b = append(b, "-0"...)
	return string(append(b, '0'+t.flags))
}
