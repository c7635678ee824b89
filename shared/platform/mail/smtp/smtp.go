// Package smtp is the [mail.Sender] driver for an SMTP server. The connection
// is encrypted from its first byte (smtps), or by STARTTLS if the server offers
// it. A password is sent over an encrypted connection only, or to this machine.
//
// It builds on go-mail: net/smtp is frozen, has no time-outs, and leaves the
// format of messages to its caller.
package smtp

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	netmail "net/mail"
	"net/textproto"
	"net/url"
	"strconv"
	"strings"
	"time"

	gomail "github.com/wneessen/go-mail"
	gosmtp "github.com/wneessen/go-mail/smtp"

	"millrace/shared/platform/clock"
	"millrace/shared/platform/mail"
)

// Timeout is how long the server may take for each step of a message.
const Timeout = 10 * time.Second

// Ports of a URL that names none.
const (
	submission  = 587
	submissions = 465
)

// mechanisms are the ways to authenticate, the preferred first. Those that send
// the password need an encrypted connection, unless the server is this machine.
var mechanisms = []gomail.SMTPAuthType{
	gomail.SMTPAuthSCRAMSHA256, gomail.SMTPAuthSCRAMSHA1, gomail.SMTPAuthPlain, gomail.SMTPAuthLogin, gomail.SMTPAuthCramMD5,
}

// Config selects the server.
type Config struct {
	// URL is smtp://[user:password@]host[:port] or smtps://…; the default ports are
	// 587 and 465.
	URL string
	// From is the sender of every message, "alerts@example.com" or
	// "Name <alerts@example.com>".
	From  string
	Clock clock.Clock // for the date of messages
	// TLS configures encrypted connections; nil: the server's certificate must be
	// valid for its host name.
	TLS *tls.Config
}

// Sender is the SMTP driver. Create it with New.
type Sender struct {
	from     netmail.Address
	clock    clock.Clock
	host     string
	port     int
	secure   bool // encrypted from the first byte
	user     string
	password string
	tls      *tls.Config
}

var _ mail.Sender = (*Sender)(nil)

// New returns a sender. It makes no connection. Errors: mail.ErrArgument for a
// URL or a sender that is not valid; the error does not contain the password.
func New(cfg Config) (*Sender, error) {
	s := &Sender{clock: cfg.Clock, tls: cfg.TLS}
	u, err := url.Parse(cfg.URL)
	if err != nil { // its error contains the URL
		return nil, fmt.Errorf("%w: the server is not smtp://[user:password@]host:port; a password must be percent-encoded", mail.ErrArgument)
	}
	s.host, s.secure = u.Hostname(), u.Scheme == "smtps"
	if s.port = submission; s.secure {
		s.port = submissions
	}
	if text := u.Port(); text != "" {
		if s.port, err = strconv.Atoi(text); err != nil || s.port < 1 || s.port > 65535 {
			return nil, fmt.Errorf("%w: %s is no port", mail.ErrArgument, text)
		}
	}
	if !s.secure && u.Scheme != "smtp" || s.host == "" || strings.Trim(u.Path, "/")+u.RawQuery+u.Fragment != "" {
		return nil, fmt.Errorf("%w: the server is not smtp://[user:password@]host:port, or smtps://…", mail.ErrArgument)
	}
	if u.User != nil {
		s.user = u.User.Username()
		s.password, _ = u.User.Password()
		if s.user == "" || s.password == "" {
			return nil, fmt.Errorf("%w: the server has a user without a password, or the reverse", mail.ErrArgument)
		}
	}
	if s.from, err = mail.Address(cfg.From); err != nil {
		return nil, fmt.Errorf("sender: %w", err)
	}
	if s.tls == nil {
		s.tls = &tls.Config{ServerName: s.host, MinVersion: tls.VersionTLS12}
	}
	return s, nil
}

// Send connects to the server and hands the message over.
func (s *Sender) Send(ctx context.Context, m mail.Message) error {
	if err := errors.Join(ctx.Err(), m.Check()); err != nil {
		return err
	}
	msg, err := s.message(m)
	if err != nil {
		return fmt.Errorf("%w: %w", mail.ErrArgument, err)
	}
	// The library observes a context only while it connects: an ended one closes
	// the connection.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	client, err := s.client(ctx)
	if err != nil {
		return fmt.Errorf("%w: %w", mail.ErrArgument, err)
	}
	connection, err := client.DialToSMTPClientWithContext(ctx)
	if err != nil {
		return s.translate(ctx, err)
	}
	err = client.SendWithSMTPClient(connection, msg)
	_ = client.CloseWithSMTPClient(connection) // the message was accepted, or it was not
	if msg.IsDelivered() {
		return nil
	}
	return s.translate(ctx, err)
}

func (s *Sender) message(m mail.Message) (*gomail.Msg, error) {
	msg := gomail.NewMsg(gomail.WithEncoding(gomail.EncodingQP), gomail.WithNoDefaultUserAgent())
	err := errors.Join(msg.FromFormat(s.from.Name, s.from.Address), msg.To(m.To...))
	msg.Subject(m.Subject)
	msg.SetDateWithValue(s.clock.Now())
	if m.ID == "" {
		msg.SetMessageID()
	} else {
		_, domain, _ := strings.Cut(s.from.Address, "@")
		msg.SetMessageIDWithValue(m.ID + "@" + domain)
	}
	msg.SetGenHeader("Auto-Submitted", "auto-generated") // no vacation replies
	msg.SetBodyString(gomail.TypeTextPlain, m.Text)
	return msg, err
}

// client returns a client for one message.
func (s *Sender) client(ctx context.Context) (*gomail.Client, error) {
	options := []gomail.Option{
		gomail.WithPort(s.port), gomail.WithTimeout(Timeout), gomail.WithTLSConfig(s.tls), gomail.WithTLSPolicy(gomail.TLSOpportunistic),
		gomail.WithoutNoop(), gomail.WithHELO(helo), gomail.WithDialContextFunc(s.dial(ctx)),
	}
	if s.secure {
		options = append(options, gomail.WithSSL())
	}
	if s.user != "" {
		options = append(options, gomail.WithUsername(s.user), gomail.WithPassword(s.password), gomail.WithOpportunisticSMTPAuth(mechanisms...))
	}
	return gomail.NewClient(s.host, options...)
}

// helo is the name with which the client introduces itself. The machine's own is
// nothing that a mail server needs to know.
const helo = "localhost"

// dial returns a function that connects to the server, and whose connections end
// with ctx.
func (s *Sender) dial(ctx context.Context) gomail.DialContextFunc {
	return func(dialing context.Context, network, address string) (net.Conn, error) {
		dialer := &net.Dialer{Timeout: Timeout}
		connect := dialer.DialContext
		if s.secure {
			connect = (&tls.Dialer{NetDialer: dialer, Config: s.tls}).DialContext
		}
		conn, err := connect(dialing, network, address)
		if err == nil {
			context.AfterFunc(ctx, func() { _ = conn.Close() })
		}
		return conn, err
	}
}

// translate returns the port's error for one of the library's.
func (s *Sender) translate(ctx context.Context, err error) error {
	if ended := ctx.Err(); ended != nil {
		return ended
	}
	code := 0
	if answer, ok := errors.AsType[*textproto.Error](err); ok {
		code = answer.Code
	}
	if failed, ok := errors.AsType[*gomail.SendError](err); ok {
		code = cmp.Or(failed.ErrorCode(), code)
	}
	kind := mail.ErrUnavailable
	if _, untrusted := errors.AsType[*tls.CertificateVerificationError](err); code >= 500 || untrusted || unauthenticated(err) {
		kind = mail.ErrRefused
	}
	return fmt.Errorf("%w: %s", kind, s.plain(err))
}

// unauthenticated reports whether the server offers no way to authenticate that
// may be used on the connection.
func unauthenticated(err error) bool {
	return errors.Is(err, gomail.ErrPlainAuthNotSupported) || errors.Is(err, gomail.ErrLoginAuthNotSupported) ||
		errors.Is(err, gomail.ErrNoSupportedAuthDiscovered) || errors.Is(err, gosmtp.ErrUnencrypted) ||
		strings.Contains(err.Error(), "does not support SMTP AUTH") // has no value of its own
}

// plain returns an error's text in one line, without the password if a server
// repeats it.
func (s *Sender) plain(err error) string {
	text := strings.Join(strings.Fields(err.Error()), " ")
	if s.password != "" {
		text = strings.ReplaceAll(text, s.password, "***")
	}
	return text
}
