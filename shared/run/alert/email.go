package alert

import (
	"context"
	"errors"
	"strings"

	"millrace/shared/platform/mail"
)

// email sends a message by mail.
func (s *Sender) email(ctx context.Context, config Config, m *Message) Result {
	if s.Mail == nil {
		return failed(false, "no mail server is set")
	}
	err := s.Mail.Send(ctx, mail.Message{To: config.To, Subject: "[Millrace] " + m.title(), Text: m.mailText(), ID: m.ID})
	switch {
	case err == nil:
		return delivered("the mail server accepted the message")
	case errors.Is(err, mail.ErrRefused), errors.Is(err, mail.ErrArgument):
		return failed(false, "the mail server refused the message: %s", oneLine(err.Error(), maxExcerpt))
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return failed(true, "no answer of the mail server within %s", Timeout)
	}
	return failed(true, "%s", oneLine(err.Error(), maxExcerpt))
}

func (m *Message) mailText() string {
	var b strings.Builder
	b.WriteString(m.title() + "\n\n")
	for _, f := range m.facts() {
		b.WriteString(f.name + ": " + f.text + "\n")
	}
	if m.Run.URL != nil {
		b.WriteString("\n" + *m.Run.URL + "\n")
	}
	return b.String()
}
