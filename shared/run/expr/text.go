package expr

import (
	"strings"
	"unicode/utf8"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/interpreter"
)

// The library searches a text from every position, and copies all of it, four
// bytes for each character, to find one. These functions take linear time.
// Positions are counted in characters, as in the library.

// texts returns one or two leading texts and an optional number.
func texts(args []ref.Val, n int) (text [2]string, number types.Int, given, ok bool) {
	if len(args) < n || len(args) > n+1 {
		return text, 0, false, false
	}
	for i := range n {
		s, isText := args[i].(types.String)
		if !isText {
			return text, 0, false, false
		}
		text[i] = string(s)
	}
	if len(args) == n {
		return text, 0, false, true
	}
	number, ok = args[n].(types.Int)
	return text, number, true, ok
}

// chargeScan charges for traversing texts.
func chargeScan(frame *interpreter.ExecutionFrame, text ...string) {
	n := 1
	for _, s := range text {
		n += len(s) / 64
	}
	charge(frame, n)
}

// byteOf returns the offset of character n; the text's length and false if it
// has at most n.
func byteOf(s string, n int) (int, bool) {
	if n < 0 || n >= len(s) {
		return len(s), false
	}
	for i := range s {
		if n == 0 {
			return i, true
		}
		n--
	}
	return len(s), false
}

// outOfRange returns the library's error.
func outOfRange(n types.Int) ref.Val { return types.NewErr("index out of range: %d", int64(n)) }

func indexOf(frame *interpreter.ExecutionFrame, args []ref.Val) (ref.Val, bool) {
	text, from, _, ok := texts(args, 2)
	if !ok {
		return nil, false
	}
	chargeScan(frame, text[0], text[1])
	if from < 0 {
		return outOfRange(from), true
	}
	start, within := byteOf(text[0], int(from))
	if text[1] == "" {
		return min(from, types.Int(utf8.RuneCountInString(text[0]))), true
	}
	at := strings.Index(text[0][start:], text[1])
	if !within || at < 0 {
		return types.Int(-1), true
	}
	return from + types.Int(utf8.RuneCountInString(text[0][start:start+at])), true
}

func lastIndexOf(frame *interpreter.ExecutionFrame, args []ref.Val) (ref.Val, bool) {
	text, from, given, ok := texts(args, 2)
	if !ok {
		return nil, false
	}
	chargeScan(frame, text[0], text[1])
	if from < 0 {
		return outOfRange(from), true
	}
	length := types.Int(utf8.RuneCountInString(text[0]))
	switch {
	case text[1] == "" && given:
		return min(from, length), true
	case text[1] == "":
		return length, true
	case given && from >= length:
		return types.Int(-1), true
	}
	within := text[0]
	if given { // a match may begin at from and end after it
		start, _ := byteOf(text[0], int(from))
		within = text[0][:min(len(text[0]), start+len(text[1]))]
	}
	at := strings.LastIndex(within, text[1])
	if at < 0 {
		return types.Int(-1), true
	}
	return types.Int(utf8.RuneCountInString(text[0][:at])), true
}

func charAt(frame *interpreter.ExecutionFrame, args []ref.Val) (ref.Val, bool) {
	text, n, given, ok := texts(args, 1)
	if !ok || !given {
		return nil, false
	}
	chargeScan(frame, text[0])
	at, within := byteOf(text[0], int(n))
	if !within {
		if n >= 0 && int(n) == utf8.RuneCountInString(text[0]) {
			return types.String(""), true
		}
		return outOfRange(n), true
	}
	_, width := utf8.DecodeRuneInString(text[0][at:])
	return types.String(text[0][at : at+width]), true
}

// substring shares the text's memory.
func substring(frame *interpreter.ExecutionFrame, args []ref.Val) (ref.Val, bool) {
	text, from, given, ok := texts(args[:min(len(args), 2)], 1)
	if !ok || !given || len(args) > 3 {
		return nil, false
	}
	chargeScan(frame, text[0])
	length := types.Int(utf8.RuneCountInString(text[0]))
	to := length
	if len(args) == 3 {
		if to, ok = args[2].(types.Int); !ok {
			return nil, false
		}
		if from > to {
			return types.NewErr("invalid substring range. start: %d, end: %d", int64(from), int64(to)), true
		}
	}
	for _, n := range []types.Int{from, to} {
		if n < 0 || n > length {
			return outOfRange(n), true
		}
	}
	start, _ := byteOf(text[0], int(from))
	end, _ := byteOf(text[0][start:], int(to-from))
	return types.String(text[0][start : start+end]), true
}

func splitText(frame *interpreter.ExecutionFrame, args []ref.Val) (ref.Val, bool) {
	text, limit, given, ok := texts(args, 2)
	if !ok {
		return nil, false
	}
	if !given {
		limit = -1
	}
	chargeScan(frame, text[0], text[1])
	parts := strings.Count(text[0], text[1]) + 1
	if limit >= 0 {
		parts = min(parts, int(limit))
	}
	charge(frame, parts)
	chargeBytes(frame, 2*elementBytes*parts)
	return types.NewStringList(adapter{}, strings.SplitN(text[0], text[1], int(limit))), true
}
