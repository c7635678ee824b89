package smtp_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	gosmtp "github.com/emersion/go-smtp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/platform/clock"
	"millrace/shared/platform/mail"
	"millrace/shared/platform/mail/mailtest"
	"millrace/shared/platform/mail/smtp"
)

// certificate returns the configurations of a server whose certificate is of
// 127.0.0.1, and of clients that trust it.
func certificate(t *testing.T) (server, client *tls.Config) {
	t.Helper()
	s := httptest.NewUnstartedServer(nil) // for its certificate
	s.StartTLS()
	t.Cleanup(s.Close)
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	return &tls.Config{Certificates: s.TLS.Certificates}, &tls.Config{RootCAs: roots, ServerName: "127.0.0.1"}
}

func open(t *testing.T, cfg smtp.Config) *smtp.Sender {
	t.Helper()
	if cfg.From == "" {
		cfg.From = mailtest.From
	}
	cfg.Clock = clock.System{}
	s, err := smtp.New(cfg)
	require.NoError(t, err)
	return s
}

var hello = mail.Message{To: []string{"ann@example.com"}, Subject: "hello", Text: "Hello.\n", ID: "dlv_1"}

func TestConformance(t *testing.T) {
	t.Parallel()
	mailtest.Exercise(t, func(t *testing.T) (mail.Sender, func(*testing.T, string) []mailtest.Received) {
		var server mailtest.Server
		server.Start(t)
		return open(t, smtp.Config{URL: "smtp://" + server.Addr()}), func(t *testing.T, word string) []mailtest.Received {
			return server.Received(t, word)
		}
	})
}

func TestConformanceEncrypted(t *testing.T) {
	t.Parallel()
	theirs, ours := certificate(t)
	mailtest.Exercise(t, func(t *testing.T) (mail.Sender, func(*testing.T, string) []mailtest.Received) {
		server := mailtest.Server{TLS: theirs, Secure: true, User: "millrace", Password: "p@ss word"}
		server.Start(t)
		return open(t, smtp.Config{URL: "smtps://millrace:p%40ss%20word@" + server.Addr(), TLS: ours}), func(t *testing.T, word string) []mailtest.Received {
			return server.Received(t, word)
		}
	})
}

// TestConnection checks encryption and authentication of each kind of server.
func TestConnection(t *testing.T) {
	t.Parallel()
	theirs, ours := certificate(t)
	for _, c := range []struct {
		name      string
		server    *mailtest.Server // nil: without TLS and passwords
		scheme    string
		trust     *tls.Config
		encrypted bool
		err       error
		user      string
	}{
		{name: "plain", scheme: "smtp"},
		{name: "starttls", scheme: "smtp", server: &mailtest.Server{TLS: theirs}, trust: ours, encrypted: true},
		{name: "starttls with a password", scheme: "smtp", server: &mailtest.Server{TLS: theirs, User: "u", Password: "secret-1"}, trust: ours, user: "u:secret-1@", encrypted: true},
		{name: "password to this machine", scheme: "smtp", server: &mailtest.Server{User: "u", Password: "secret-1"}, user: "u:secret-1@"},
		{name: "wrong password", scheme: "smtp", server: &mailtest.Server{User: "u", Password: "other"}, user: "u:secret-1@", err: mail.ErrRefused},
		{name: "no password", scheme: "smtp", server: &mailtest.Server{User: "u", Password: "other"}, err: mail.ErrRefused},
		{name: "password that nobody asks for", scheme: "smtp", user: "u:secret-1@", err: mail.ErrRefused},
		{name: "untrusted certificate", scheme: "smtp", server: &mailtest.Server{TLS: theirs}, err: mail.ErrRefused},
		{name: "untrusted certificate of smtps", scheme: "smtps", server: &mailtest.Server{TLS: theirs, Secure: true}, err: mail.ErrRefused},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if c.server == nil {
				c.server = &mailtest.Server{}
			}
			c.server.Start(t)
			err := open(t, smtp.Config{URL: c.scheme + "://" + c.user + c.server.Addr(), TLS: c.trust}).Send(t.Context(), hello)
			if c.err != nil {
				require.ErrorIs(t, err, c.err)
				assert.NotContains(t, err.Error(), "secret-1")
				assert.Empty(t, c.server.Raw())
				return
			}
			require.NoError(t, err)
			got := c.server.Raw()
			require.Len(t, got, 1)
			assert.Equal(t, c.encrypted, got[0].Encrypted)
			user, _, _ := strings.Cut(c.user, ":")
			assert.Equal(t, user, got[0].User)
		})
	}
}

func TestHeaders(t *testing.T) {
	t.Parallel()
	var server mailtest.Server
	server.Start(t)
	s := open(t, smtp.Config{URL: "smtp://" + server.Addr(), From: "Millrace Läufe <" + mailtest.From + ">"})
	require.NoError(t, s.Send(t.Context(), hello))
	raw := server.Raw()[0]
	assert.Equal(t, mailtest.From, raw.From)
	assert.Contains(t, raw.Data, "Message-ID: <dlv_1@millrace.example>\r\n")
	assert.Contains(t, raw.Data, "Auto-Submitted: auto-generated\r\n")
	assert.Contains(t, raw.Data, "From: =?utf-8?q?Millrace_L=C3=A4ufe?= <"+mailtest.From+">\r\n")
	assert.Contains(t, raw.Data, "To: <ann@example.com>\r\n")
	assert.Contains(t, raw.Data, "\r\nDate: ")
	for line := range strings.SplitSeq(raw.Data, "\r\n") {
		assert.LessOrEqual(t, len(line), 78)
		assert.NotContains(t, line, "\n")
		for _, c := range []byte(line) {
			assert.Less(t, c, byte(128), "7-bit text")
		}
	}
}

// TestRefusals checks which answers of a server are final.
func TestRefusals(t *testing.T) {
	t.Parallel()
	for code, want := range map[int]error{450: mail.ErrUnavailable, 421: mail.ErrUnavailable, 550: mail.ErrRefused, 554: mail.ErrRefused} {
		server := mailtest.Server{Refuse: func(to string) error {
			if to == "bob@example.com" {
				return &gosmtp.SMTPError{Code: code, Message: "mailbox not here"}
			}
			return nil
		}}
		server.Start(t)
		s := open(t, smtp.Config{URL: "smtp://" + server.Addr()})
		err := s.Send(t.Context(), mail.Message{To: []string{"ann@example.com", "bob@example.com"}, Subject: "s", Text: "x"})
		require.ErrorIs(t, err, want, code)
		assert.ErrorContains(t, err, "mailbox not here")
		assert.Empty(t, server.Raw(), "for all recipients or for none")
	}
}

// TestServerThatDoesNotAnswer checks that an ended context ends a conversation.
func TestServerThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := open(t, smtp.Config{URL: "smtp://" + listener.Addr().String()})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, s.Send(ctx, hello), context.DeadlineExceeded, "connected, but never greeted")

	require.NoError(t, listener.Close())
	require.ErrorIs(t, s.Send(t.Context(), hello), mail.ErrUnavailable)
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"", "mail.example", "mail.example:25", "http://mail.example", "smtp://", "smtp://h:0", "smtp://h:99999", "smtp://h/path", "smtp://h?x=1",
		"smtp://user@h", "smtp://:secret-1@h", "smtp://u:secret-1%@h", "smtp://u:secret-1 @h", "smtp://u:secret-1@h:port",
	} {
		_, err := smtp.New(smtp.Config{URL: url, From: mailtest.From, Clock: clock.System{}})
		require.ErrorIs(t, err, mail.ErrArgument, url)
		assert.NotContains(t, err.Error(), "secret-1")
	}
	for _, from := range []string{"", "alerts", "a@b\r\nBcc: c@d", "a@b, c@d"} {
		_, err := smtp.New(smtp.Config{URL: "smtp://h", From: from, Clock: clock.System{}})
		assert.ErrorIs(t, err, mail.ErrArgument, from)
	}
	for _, url := range []string{"smtp://h", "smtps://h", "smtp://h:25", "smtp://u:p@h", "smtp://[::1]:25/"} {
		_, err := smtp.New(smtp.Config{URL: url, From: mailtest.From, Clock: clock.System{}})
		assert.NoError(t, err, url)
	}
}
