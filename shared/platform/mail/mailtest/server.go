package mailtest

import (
	"crypto/tls"
	"io"
	"log"
	"mime"
	"mime/quotedprintable"
	"net"
	netmail "net/mail"
	"strings"
	"sync"
	"testing"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
	"github.com/stretchr/testify/require"
)

// Server is an SMTP server of a test. Set its fields before Start.
type Server struct {
	TLS            *tls.Config             // offers STARTTLS; nil: does not
	Secure         bool                    // encrypts connections from their first byte, by TLS
	User, Password string                  // that clients must authenticate with; empty: nobody must
	Refuse         func(rcpt string) error // an answer other than success, such as a *smtp.SMTPError; nil: none

	listener net.Listener
	mu       sync.Mutex
	raw      []Raw
}

// Raw is a message as it was sent.
type Raw struct {
	From      string // of the envelope
	To        []string
	Data      string // headers and body, lines end with \r\n
	Encrypted bool   // the connection was
	User      string // that the client authenticated as
}

// Start serves on a free port of this machine until the test ends.
func (s *Server) Start(t testing.TB) {
	t.Helper()
	server := smtp.NewServer(smtp.BackendFunc(func(c *smtp.Conn) (smtp.Session, error) { return &session{server: s, conn: c}, nil }))
	server.Domain, server.TLSConfig, server.AllowInsecureAuth = "mail.example", s.TLS, true
	server.ErrorLog = log.New(io.Discard, "", 0)
	var err error
	s.listener, err = net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	listener := s.listener
	if s.Secure {
		listener = tls.NewListener(listener, s.TLS)
	}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(listener) }()
	t.Cleanup(func() {
		// Not only by the server, which knows its listener once it serves.
		_ = s.listener.Close()
		_ = server.Close()
		<-done
	})
}

// Addr returns the host:port of the server.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// Raw returns the accepted messages.
func (s *Server) Raw() []Raw {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Raw(nil), s.raw...)
}

// Received returns the accepted messages with a word in their subject.
func (s *Server) Received(t testing.TB, word string) []Received {
	t.Helper()
	var out []Received
	for _, raw := range s.Raw() {
		if m := raw.Parse(t); strings.Contains(m.Subject, word) {
			out = append(out, m)
		}
	}
	return out
}

// Parse returns the message as its recipients see it.
func (r Raw) Parse(t testing.TB) Received {
	t.Helper()
	m, err := netmail.ReadMessage(strings.NewReader(r.Data))
	require.NoError(t, err)
	subject, err := new(mime.WordDecoder).DecodeHeader(m.Header.Get("Subject"))
	require.NoError(t, err)
	from, err := netmail.ParseAddress(m.Header.Get("From"))
	require.NoError(t, err)
	kind, params, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
	require.NoError(t, err)
	require.Equal(t, "text/plain", kind)
	require.Equal(t, "UTF-8", params["charset"])
	require.Equal(t, "quoted-printable", m.Header.Get("Content-Transfer-Encoding"))
	text, err := io.ReadAll(quotedprintable.NewReader(m.Body))
	require.NoError(t, err)
	return Received{From: from.Address, To: r.To, Subject: subject, Text: strings.ReplaceAll(string(text), "\r\n", "\n")}
}

// session is a connection.
type session struct {
	server *Server
	conn   *smtp.Conn
	user   string
	from   string
	to     []string
}

// AuthMechanisms implements smtp.AuthSession.
func (s *session) AuthMechanisms() []string {
	if s.server.User == "" {
		return nil
	}
	return []string{sasl.Plain}
}

// Auth implements smtp.AuthSession.
func (s *session) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, user, password string) error {
		if user != s.server.User || password != s.server.Password {
			return &smtp.SMTPError{Code: smtp.ErrAuthFailed.Code, Message: "wrong password: " + password} // as a careless server answers
		}
		s.user = user
		return nil
	}), nil
}

// Mail implements smtp.Session.
func (s *session) Mail(from string, _ *smtp.MailOptions) error {
	if s.server.User != "" && s.user == "" {
		return smtp.ErrAuthRequired
	}
	s.from = from
	return nil
}

// Rcpt implements smtp.Session.
func (s *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	if s.server.Refuse != nil {
		if err := s.server.Refuse(to); err != nil {
			return err
		}
	}
	s.to = append(s.to, to)
	return nil
}

// Data implements smtp.Session.
func (s *session) Data(r io.Reader) error {
	data, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	_, encrypted := s.conn.TLSConnectionState()
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	s.server.raw = append(s.server.raw, Raw{From: s.from, To: s.to, Data: string(data), Encrypted: encrypted, User: s.user})
	return nil
}

// Reset implements smtp.Session.
func (s *session) Reset() { s.from, s.to = "", nil }

// Logout implements smtp.Session.
func (s *session) Logout() error { return nil }
