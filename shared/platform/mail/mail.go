// Package mail is the port to a mail server. The drivers are package smtp, and
// package ses for Amazon SES. Package mailtest is the conformance suite of
// both.
//
// No error of a driver contains a password.
package mail

import (
	"context"
	"errors"
	"fmt"
	netmail "net/mail"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits of a message.
const (
	MaxTo      = 50        // recipients, SES's limit
	MaxSubject = 900       // bytes; a header line has at most 998
	MaxText    = 256 << 10 // bytes
)

// Errors that every driver returns, wrapped with details.
var (
	// ErrArgument means that the message is not valid: no recipient, an address
	// that is none, a control character in a header, or more than a limit.
	ErrArgument = errors.New("mail: invalid message")
	// ErrRefused means that the server refused the message for good. Sending it
	// again does not help.
	ErrRefused = errors.New("mail: message refused")
	// ErrUnavailable means that the message was not accepted now: the server cannot
	// be reached, is busy, or did not answer in time. It may have been accepted
	// although its answer was lost.
	ErrUnavailable = errors.New("mail: server not available")
)

// Message is a plain-text mail. Its sender is the driver's.
type Message struct {
	// To are the recipients' addresses, 1 to MaxTo, such as "ann@example.com". The
	// message is accepted for all of them or for none.
	To      []string
	Subject string // one line of UTF-8
	Text    string // UTF-8, lines end with \n
	// ID makes a message that is sent again recognizable: it becomes the left part
	// of the Message-ID where the driver can set it. Letters, digits, dots, dashes
	// and underscores; empty: the message has an id of its own.
	ID string
}

// Sender is the port. It is safe for concurrent use.
type Sender interface {
	// Send hands a message over to the server. If it returns nil, the server has
	// accepted the message. Errors: ErrArgument, ErrRefused, ErrUnavailable, and
	// that of an ended ctx.
	Send(ctx context.Context, m Message) error
}

// Address returns the address in text, which is "ann@example.com" or, where a
// name is allowed, "Ann <ann@example.com>". Errors: ErrArgument.
func Address(text string) (netmail.Address, error) {
	parsed, err := netmail.ParseAddress(text)
	if err != nil || strings.ContainsFunc(text, unicode.IsControl) {
		return netmail.Address{}, fmt.Errorf("%w: %q is no mail address", ErrArgument, text)
	}
	return *parsed, nil
}

// Check returns ErrArgument, wrapped with the reason, if a driver could not send
// the message.
func (m Message) Check() error {
	if len(m.To) == 0 || len(m.To) > MaxTo {
		return fmt.Errorf("%w: %d recipients, 1 to %d allowed", ErrArgument, len(m.To), MaxTo)
	}
	for _, to := range m.To {
		if parsed, err := Address(to); err != nil {
			return err
		} else if parsed.Address != to {
			return fmt.Errorf("%w: %q is more than an address", ErrArgument, to)
		}
	}
	switch {
	case len(m.Subject) > MaxSubject:
		return fmt.Errorf("%w: subject of %d bytes, %d allowed", ErrArgument, len(m.Subject), MaxSubject)
	case len(m.Text) > MaxText:
		return fmt.Errorf("%w: text of %d bytes, %d allowed", ErrArgument, len(m.Text), MaxText)
	case strings.ContainsFunc(m.Subject, unicode.IsControl):
		return fmt.Errorf("%w: control character in the subject", ErrArgument)
	case !utf8.ValidString(m.Subject) || !utf8.ValidString(m.Text):
		return fmt.Errorf("%w: subject or text is not UTF-8", ErrArgument)
	case strings.ContainsFunc(m.ID, foreign):
		return fmt.Errorf("%w: id %q", ErrArgument, m.ID)
	}
	return nil
}

// foreign reports whether a character may not be part of an id.
func foreign(c rune) bool {
	return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune(".-_", c)
}
