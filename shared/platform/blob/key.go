package blob

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxSegmentBytes is the longest name that file systems, and so the embedded
// store, allow between slashes.
const maxSegmentBytes = 255

// Key joins a workspace and a path into the key <org>/<path>/… and validates
// it. Errors: ErrKey, also for a part that contains a slash.
func Key(org string, path ...string) (string, error) {
	for _, part := range append([]string{org}, path...) {
		if strings.Contains(part, "/") {
			return "", fmt.Errorf("%w: %q holds a slash", ErrKey, part)
		}
	}
	key := org + "/" + strings.Join(path, "/")
	return key, ValidateKey(key)
}

// ValidateKey checks that key is <org>/<path>: at least two segments, none of
// them empty, "." or ".." or longer than 255 bytes; valid UTF-8 without control
// characters or backslashes; at most MaxKeyBytes. A first segment that begins
// with a dot is reserved. The error wraps ErrKey.
//
// One rule cannot be checked on a single key: a key must not also be the
// directory of another (a/b and a/b/c), because the embedded store keeps
// objects as files.
func ValidateKey(key string) error {
	switch {
	case key == "":
		return fmt.Errorf("%w: empty", ErrKey)
	case len(key) > MaxKeyBytes:
		return fmt.Errorf("%w: %d bytes, at most %d", ErrKey, len(key), MaxKeyBytes)
	case !utf8.ValidString(key):
		return fmt.Errorf("%w: %q is not UTF-8", ErrKey, key)
	case strings.ContainsFunc(key, forbidden):
		return fmt.Errorf("%w: %q holds a control character or backslash", ErrKey, key)
	case strings.HasPrefix(key, "."):
		return fmt.Errorf("%w: %q begins with a dot", ErrKey, key)
	case !strings.Contains(key, "/"):
		return fmt.Errorf("%w: %q has no workspace prefix", ErrKey, key)
	}
	for segment := range strings.SplitSeq(key, "/") {
		switch {
		case segment == "" || segment == "." || segment == "..":
			return fmt.Errorf("%w: %q has the segment %q", ErrKey, key, segment)
		case len(segment) > maxSegmentBytes:
			return fmt.Errorf("%w: a segment of %d bytes, at most %d", ErrKey, len(segment), maxSegmentBytes)
		}
	}
	return nil
}

// forbidden reports characters that break headers, logs, XML responses or
// paths.
func forbidden(r rune) bool {
	return unicode.IsControl(r) || r == '\\' || r == '\uFFFE' || r == '\uFFFF'
}
