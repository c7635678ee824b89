package queue

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// Check returns ErrLimit, wrapped with the reason, if a driver could not send
// the message.
func (m Message) Check() error {
	switch {
	case len(m.Body) == 0:
		return fmt.Errorf("%w: empty body", ErrLimit)
	case len(m.Body) > MaxBody:
		return fmt.Errorf("%w: body of %d bytes, %d allowed", ErrLimit, len(m.Body), MaxBody)
	case m.Delay < 0 || m.Delay > MaxDelay:
		return fmt.Errorf("%w: delay of %s, 0 to %s allowed", ErrLimit, m.Delay, MaxDelay)
	case len(m.Group) > MaxGroup:
		return fmt.Errorf("%w: group of %d characters, %d allowed", ErrLimit, len(m.Group), MaxGroup)
	case strings.ContainsFunc(m.Group, func(r rune) bool { return r <= ' ' || r > '~' }):
		return fmt.Errorf("%w: group %q is not printable ASCII", ErrLimit, m.Group)
	case !utf8.Valid(m.Body):
		return fmt.Errorf("%w: body is not UTF-8", ErrLimit)
	}
	for _, b := range m.Body {
		if b < ' ' && b != '\t' && b != '\n' && b != '\r' {
			return fmt.Errorf("%w: control character %#02x in the body", ErrLimit, b)
		}
	}
	return nil
}

// CheckReceive returns ErrLimit, wrapped with the reason, for invalid arguments
// of Receive.
func CheckReceive(max int, wait time.Duration) error {
	if max < 1 || max > MaxBatch {
		return fmt.Errorf("%w: receive of %d messages, 1 to %d allowed", ErrLimit, max, MaxBatch)
	}
	if wait < 0 || wait > MaxWait {
		return fmt.Errorf("%w: wait of %s, 0 to %s allowed", ErrLimit, wait, MaxWait)
	}
	return nil
}

// CheckExtend returns ErrLimit, wrapped with the reason, for an invalid
// time-out of Extend.
func CheckExtend(d time.Duration) error {
	if d < 0 || d > MaxExtend {
		return fmt.Errorf("%w: time-out of %s, 0 to %s allowed", ErrLimit, d, MaxExtend)
	}
	return nil
}

// maxName is SQS's limit for a queue name, the suffix "-dead" included.
const maxName = 80

// Check returns ErrLimit, wrapped with the reason, if a driver could not create
// the queue.
func (d Definition) Check() error {
	if d.Name == "" || len(Dead(d.Name)) > maxName {
		return fmt.Errorf("%w: queue name %q, 1 to %d characters allowed", ErrLimit, d.Name, maxName-len(Dead("")))
	}
	for _, r := range d.Name {
		if !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_", r) {
			return fmt.Errorf("%w: queue name %q has the character %q", ErrLimit, d.Name, r)
		}
	}
	if strings.HasSuffix(d.Name, Dead("")) {
		return fmt.Errorf("%w: queue name %q has the suffix of a dead-letter queue", ErrLimit, d.Name)
	}
	if d.Visibility <= 0 || d.Visibility > MaxExtend {
		return fmt.Errorf("%w: queue %s: visibility time-out of %s, over 0 to %s allowed", ErrLimit, d.Name, d.Visibility, MaxExtend)
	}
	return nil
}
