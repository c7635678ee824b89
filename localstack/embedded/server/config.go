package server

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"

	"millrace/localstack/embedded/interpreters"
	"millrace/localstack/embedded/space"
	"millrace/shared/account/quota"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/mail"
	"millrace/shared/platform/mail/smtp"
	"millrace/shared/platform/telemetry/otlp"
	"millrace/shared/web/cors"
)

// DefaultListen is the default address of the API.
const DefaultListen = "127.0.0.1:8080"

// DefaultSMTPFrom is the default sender of mail.
const DefaultSMTPFrom = "Millrace <millrace@localhost>"

// Config is an operator's configuration.
type Config struct {
	Dir           string      // data directory, created if missing; required
	Listen        string      // host:port of the API; port 0 means a free one; "" means DefaultListen
	S3Listen      string      // host:port of the object store; "" means 127.0.0.1 and the port of the last start
	SuperAdmins   []string    // emails of the platform's administrators
	NoTick        bool        // no per-minute tick
	AllowLoopback bool        // calls on behalf of users may reach this machine
	AllowRanges   []string    // CIDR ranges that such calls may reach besides public addresses
	AllowOrigins  []string    // origins of web pages that may use the API and upload, https://console.example.com
	SMTP          string      // smtp://[user:password@]host:port, or smtps://, of the mail server; "": no mail is sent
	SMTPFrom      string      // sender of mail; "" means DefaultSMTPFrom
	FullSync      bool        // a commit waits for the disk
	Adopt         bool        // a backup replaces the server it was made of
	Python        string      // interpreter of Python tasks; "" means the first suitable python3 on PATH
	Workers       int         // concurrent tasks of an execution mode; 0 means the runtime's default
	PythonSlots   int         // live interpreters; 0 means the pool's default
	Isolated      bool        // refuse to start where Python tasks cannot be isolated
	PythonScratch int64       // bytes of files that a task may keep at once; 0: the pool's default
	PythonUID     int         // first user of tasks, of a server that is root; 0: the pool's default
	TaskNetwork   string      // interpreters.HostNetwork or NoNetwork; "": the host's
	Limits        []string    // name=value of limits that differ from the table of package quota
	OTLP          otlp.Config // of the collector of spans
	Mounts        []string    // DIR or DIR:rw of directories that are visible to Python tasks
	Version       string      // of the service
	Log           *slog.Logger

	// Stopping is called when [Server.Serve] begins to stop, with the number of
	// tasks that may finish. It may be nil.
	Stopping func(tasks int)
	// SignInCode shows the one-time code that a browser is asked for that signs
	// in; nil: no browser can sign in.
	SignInCode func(code string)

	origins cors.Origins         // parsed AllowOrigins
	limits  quota.Values         // parsed Limits
	mounts  []interpreters.Mount // parsed Mounts
	mail    mail.Sender          // of SMTP; nil: none
	usage   space.Usage          // nil: the usage of Dir's disk
}

// complete fills in defaults and rejects invalid settings.
func (c *Config) complete() error {
	if c.Dir == "" {
		return errors.New("a data directory is required")
	}
	// The object store changes the working directory of the process.
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	c.Dir = dir
	c.Listen = cmp.Or(c.Listen, DefaultListen)
	for _, address := range []string{c.Listen, c.S3Listen} {
		if _, _, err := net.SplitHostPort(address); address != "" && err != nil {
			return fmt.Errorf("%q is not host:port", address)
		}
	}
	for _, r := range c.AllowRanges {
		if _, err := netip.ParsePrefix(r); err != nil {
			return fmt.Errorf("%q is not a CIDR range such as 10.0.0.0/8", r)
		}
	}
	if c.PythonSlots < 0 || c.Workers < 0 {
		return errors.New("the number of workers or of Python interpreters is negative")
	}
	if c.Python != "" && filepath.Base(c.Python) != c.Python {
		if c.Python, err = filepath.Abs(c.Python); err != nil {
			return fmt.Errorf("python: %w", err)
		}
	}
	if c.limits, err = quota.ParseValues(c.Limits); err != nil {
		return err
	}
	if c.origins, err = cors.Parse(c.AllowOrigins); err != nil {
		return fmt.Errorf("--allow-origin: %w", err)
	}
	if c.SMTP != "" {
		sender, err := smtp.New(smtp.Config{URL: c.SMTP, From: cmp.Or(c.SMTPFrom, DefaultSMTPFrom), Clock: clock.System{}})
		if err != nil {
			return fmt.Errorf("--smtp: %w", err)
		}
		c.mail, c.SMTP = sender, "" // which may contain a password
	}
	if c.mounts, err = interpreters.ParseMounts(c.Mounts, c.Dir); err != nil {
		return fmt.Errorf("--mount: %w", err)
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.usage == nil {
		c.usage = func() (free, total uint64, err error) {
			usage, err := vfs.Default.GetDiskUsage(c.Dir)
			return usage.AvailBytes, usage.TotalBytes, err
		}
	}
	return nil
}

// baseURL returns the URL by which clients on this machine reach a listener.
func baseURL(address net.Addr) string {
	host, port, _ := net.SplitHostPort(address.String())
	if ip, err := netip.ParseAddr(host); err == nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port)
}

// listen listens on the address of the API.
func listen(address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("another program listens on %s: choose another address with --listen, such as 127.0.0.1:0 for any free port (%w)", address, err)
	}
	return l, err
}
