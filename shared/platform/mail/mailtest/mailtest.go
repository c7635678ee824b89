// Package mailtest is the conformance suite of package mail. Every driver passes
// it with its own factory.
package mailtest

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/platform/ids"
	"millrace/shared/platform/mail"
)

// From is the sender of the suite's messages.
const From = "alerts@millrace.example"

// Received is a message as its recipients see it.
type Received struct {
	From, Subject, Text string // the sender's address; decoded; lines end with \n
	To                  []string
}

// New returns a sender of messages from [From], and a function that returns the
// messages that its server has accepted with a word in their subject.
type New func(t *testing.T) (s mail.Sender, received func(t *testing.T, word string) []Received)

// word returns a word for a subject. No other message has it, because senders of
// several tests may share a server.
func word() string { return "m" + ids.Token(9) }

var cases = []struct {
	name string
	run  func(t *testing.T, n New)
}{
	{"Message", message},
	{"Recipients", recipients},
	{"LongText", longText},
	{"Invalid", invalid},
	{"EndedContext", endedContext},
	{"Concurrency", concurrency},
}

// Exercise runs the suite.
func Exercise(t *testing.T, n New) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.run(t, n)
		})
	}
}

func message(t *testing.T, n New) {
	s, received := n(t)
	for _, want := range []Received{
		{From, word() + ": sales failed", "A line.\n\n.A dot.\nLast = line\n", []string{"ann@example.com"}},
		{From, word() + ": Umsätze für März — 売上", "Grüße 😀\n", []string{"ann@example.com"}},
	} {
		require.NoError(t, s.Send(t.Context(), mail.Message{To: want.To, Subject: want.Subject, Text: want.Text, ID: "dlv_1.a-b"}))
		first, _, _ := strings.Cut(want.Subject, ":")
		assert.Equal(t, []Received{want}, received(t, first))
	}
}

func recipients(t *testing.T, n New) {
	subject := word()
	s, received := n(t)
	to := make([]string, mail.MaxTo)
	for i := range to {
		to[i] = strings.Repeat("a", i+1) + "@example.com"
	}
	require.NoError(t, s.Send(t.Context(), mail.Message{To: to, Subject: subject, Text: "Hello.\n"}))
	got := received(t, subject)
	require.Len(t, got, 1)
	assert.ElementsMatch(t, to, got[0].To)
}

func longText(t *testing.T, n New) {
	s, received := n(t)
	want := strings.Repeat("x", 5000) + "\n" + strings.Repeat("A line of text, ä.\n", 1000)
	first := word()
	subject := first + strings.Repeat(" word", 100)
	require.NoError(t, s.Send(t.Context(), mail.Message{To: []string{"ann@example.com"}, Subject: subject, Text: want}))
	got := received(t, first)
	require.Len(t, got, 1)
	assert.Equal(t, want, got[0].Text)
	assert.Equal(t, subject, got[0].Subject)
}

func invalid(t *testing.T, n New) {
	subject := word()
	s, received := n(t)
	good := func(change func(*mail.Message)) mail.Message {
		m := mail.Message{To: []string{"ann@example.com"}, Subject: subject, Text: "x"}
		change(&m)
		return m
	}
	for name, m := range map[string]mail.Message{
		"no recipient":             good(func(m *mail.Message) { m.To = nil }),
		"too many":                 good(func(m *mail.Message) { m.To = make([]string, mail.MaxTo+1) }),
		"no address":               good(func(m *mail.Message) { m.To = []string{"ann"} }),
		"a name":                   good(func(m *mail.Message) { m.To = []string{"Ann <ann@example.com>"} }),
		"two addresses":            good(func(m *mail.Message) { m.To = []string{"ann@example.com, bob@example.com"} }),
		"a header in the address":  good(func(m *mail.Message) { m.To = []string{"ann@example.com\r\nBcc: eve@example.com"} }),
		"a command in the address": good(func(m *mail.Message) { m.To = []string{"ann@example.com>\r\nRCPT TO:<eve@example.com"} }),
		"a header in the subject":  good(func(m *mail.Message) { m.Subject += "\r\nBcc: eve@example.com" }),
		"a line in the subject":    good(func(m *mail.Message) { m.Subject += "\n" }),
		"a long subject":           good(func(m *mail.Message) { m.Subject += strings.Repeat("x", mail.MaxSubject) }),
		"a long text":              good(func(m *mail.Message) { m.Text = strings.Repeat("x", mail.MaxText+1) }),
		"no UTF-8":                 good(func(m *mail.Message) { m.Text = "\xff" }),
		"an id with a header":      good(func(m *mail.Message) { m.ID = "a>\r\nBcc: eve@example.com" }),
	} {
		assert.ErrorIs(t, s.Send(t.Context(), m), mail.ErrArgument, name)
	}
	assert.Empty(t, received(t, subject))
}

func endedContext(t *testing.T, n New) {
	subject := word()
	s, received := n(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, s.Send(ctx, mail.Message{To: []string{"ann@example.com"}, Subject: subject, Text: "x"}), context.Canceled)
	ctx, cancel = context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	require.ErrorIs(t, s.Send(ctx, mail.Message{To: []string{"ann@example.com"}, Subject: subject, Text: "x"}), context.DeadlineExceeded)
	assert.Empty(t, received(t, subject))
}

func concurrency(t *testing.T, n New) {
	subject := word()
	const senders = 8
	s, received := n(t)
	var wg sync.WaitGroup
	for range senders {
		wg.Go(func() {
			assert.NoError(t, s.Send(t.Context(), mail.Message{To: []string{"ann@example.com"}, Subject: subject, Text: "x"}))
		})
	}
	wg.Wait()
	assert.Len(t, received(t, subject), senders)
}
