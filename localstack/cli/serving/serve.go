package serving

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"millrace/localstack/cli/command"
	"millrace/localstack/embedded/interpreters"
	"millrace/localstack/embedded/runtime"
	"millrace/localstack/embedded/server"
	"millrace/localstack/embedded/signin"
	"millrace/shared/platform/telemetry"
	"millrace/shared/platform/telemetry/otlp"
)

// smtpVariable is the variable with the URL of the mail server. Unlike the flag,
// it does not show the password to other users of the machine.
const smtpVariable = "MILLRACE_SMTP"

// options holds the flags of a server.
type options struct {
	cfg           server.Config
	level, format string
	scratch       int64
}

func serveCommand(version string) *cobra.Command {
	var o options
	c := &cobra.Command{
		Use:   "serve",
		Short: "Serve the API, the workers, the scheduler and the object store until SIGTERM",
		Args:  command.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := o.config(version)
			if err != nil {
				return err
			}
			s, wait, err := open(c, cfg)
			if err != nil {
				return err
			}
			defer wait()
			return s.Serve(c.Context())
		},
	}
	o.flags(c.Flags())
	return c
}

// config returns the configuration that the flags describe. It sets the process's
// default logger.
func (o *options) config(version string) (server.Config, error) {
	cfg := o.cfg
	var minimum slog.Level
	switch {
	case minimum.UnmarshalText([]byte(o.level)) != nil:
		return cfg, command.Usagef("--log-level is debug, info, warn or error, not %q", o.level)
	case o.format != telemetry.Text && o.format != telemetry.JSON:
		return cfg, command.Usagef("--log-format is text or json, not %q", o.format)
	case cfg.TaskNetwork != interpreters.HostNetwork && cfg.TaskNetwork != interpreters.NoNetwork:
		return cfg, command.Usagef("--task-network is %s or %s, not %q", interpreters.HostNetwork, interpreters.NoNetwork, cfg.TaskNetwork)
	case o.scratch < 1 || cfg.PythonUID < 1:
		return cfg, command.Usagef("--python-scratch and --python-uid are positive")
	case cfg.Workers < 1 || cfg.PythonSlots < 1:
		return cfg, command.Usagef("--workers and --python-slots are positive")
	}
	if cfg.SMTP == "" {
		cfg.SMTP = os.Getenv(smtpVariable)
	}
	var err error
	if cfg.OTLP, err = otlp.ReadConfig(os.Getenv); err != nil {
		return cfg, command.Usage(err)
	}
	for _, secret := range []string{smtpVariable, otlp.EnvHeaders} { // processes that the server starts do not need them
		if err := os.Unsetenv(secret); err != nil {
			return cfg, err
		}
	}
	cfg.PythonScratch = o.scratch << 20
	cfg.Log = telemetry.NewLogger(os.Stderr, o.format, minimum)
	slog.SetDefault(cfg.Log)
	cfg.Version = version
	return cfg, nil
}

func (o *options) flags(f *pflag.FlagSet) {
	cfg := &o.cfg
	f.StringVar(&cfg.Dir, "data", defaultData, "data directory, created if missing; everything is stored there")
	f.StringVar(&cfg.Listen, "listen", server.DefaultListen, "host:port of the API; port 0 chooses a free one")
	f.StringVar(&cfg.S3Listen, "s3-listen", "", "host:port of the object store (default: 127.0.0.1 and the port of the last start)")
	f.StringArrayVar(&cfg.SuperAdmins, "super-admin", nil, "email of a platform administrator; repeat for more")
	f.BoolVar(&cfg.NoTick, "no-tick", false, "no tick every minute; invoke scheduler-tick instead")
	f.BoolVar(&cfg.AllowLoopback, "allow-loopback", false, "tasks of type http, sensors and notification channels may call this machine")
	f.StringArrayVar(&cfg.AllowRanges, "allow-range", nil, "CIDR range that they may call besides public addresses; repeat for more")
	f.StringArrayVar(&cfg.AllowOrigins, "allow-origin", nil, "origin of web pages that may use the API and upload, https://console.example.com; repeat for more")
	f.StringVar(&cfg.SMTP, "smtp", "", "smtp://[user:password@]host:port or smtps://… of the server that sends mail; with a password better in the variable "+smtpVariable+", which other users of the machine do not see")
	f.StringVar(&cfg.SMTPFrom, "smtp-from", server.DefaultSMTPFrom, "sender of mail")
	f.BoolVar(&cfg.FullSync, "full-sync", false, "a write is acknowledged when it is on the disk: survives a power cut, slower")
	f.BoolVar(&cfg.Adopt, "adopt", false, "the data directory is a backup that replaces its server: schedules, retries and timeouts now run here")
	f.StringVar(&cfg.Python, "python", "", "interpreter of Python tasks, with the packages of its virtual environment (default: the first suitable python3 on PATH, without packages)")
	f.IntVar(&cfg.Workers, "workers", runtime.DefaultWorkers, "tasks of one execution mode that run at once; a workspace that is alone gets eight ninths (64 of 72), the next one's tasks begin at once in the rest")
	f.IntVar(&cfg.PythonSlots, "python-slots", interpreters.DefaultSlots, "Python tasks that run at once; a workspace that is alone gets eight ninths (16 of 18, with fewer than 18 all but one), the next one's tasks begin at once in the rest")
	f.BoolVar(&cfg.Isolated, "require-isolation", false, "do not start if Python tasks would share users, files and processes with the server or each other")
	f.Int64Var(&o.scratch, "python-scratch", interpreters.DefaultScratch>>20, "MB of files that a Python task may keep at once")
	f.IntVar(&cfg.PythonUID, "python-uid", interpreters.DefaultUID, "user of the first Python slot, the next ones follow; where the server is root")
	f.StringArrayVar(&cfg.Mounts, "mount", nil, "DIR or DIR:rw: a directory of this machine that Python tasks can read, or also write, at the same path; repeat for more")
	f.StringVar(&cfg.TaskNetwork, "task-network", interpreters.HostNetwork, "network of Python tasks: host, with everything that this machine can reach, or none")
	f.StringArrayVar(&cfg.Limits, "limit", nil, "name=value (a number or unlimited) of a limit for each workspace or user, such as runs-per-minute=600, or plan=name; repeat for more; an unknown name lists them")
	f.StringVar(&o.level, "log-level", "warn", "debug, info (with every request), warn or error; logs go to stderr")
	f.StringVar(&o.format, "log-format", telemetry.Text, "text or json, a JSON object a line")
}

// open opens a server and prints its addresses. wait returns when everything was
// printed.
func open(c *cobra.Command, cfg server.Config) (s *server.Server, wait func(), err error) {
	// This must happen before any secret is read. For other users than root the kernel
	// would then not let the server create user namespaces, which isolate it, its files
	// and its memory from tasks much better.
	if os.Geteuid() == 0 {
		if err = interpreters.Undumpable(); err != nil {
			return nil, nil, err
		}
	}
	if cfg.Dir, err = filepath.Abs(cfg.Dir); err != nil { // the object store changes the working directory
		return nil, nil, err
	}
	cfg.SignInCode = printCode(c.OutOrStdout())
	cfg.Stopping = func(tasks int) { fmt.Fprintln(c.ErrOrStderr(), stopping(tasks)) }
	s, err = server.Open(c.Context(), cfg)
	if _, wrong := errors.AsType[*server.ConfigError](err); wrong {
		return nil, nil, command.Usage(err)
	}
	if err != nil {
		return nil, nil, err
	}
	out, base := c.OutOrStdout(), s.Credentials().BaseURL
	fmt.Fprintf(out, "millrace %s serves %s\n  API          %s\n  description  %s/docs\n  credentials  %s\n  sign in      millrace login --url %s\n",
		cfg.Version, cfg.Dir, base, base, filepath.Join(cfg.Dir, signin.CredentialsFile), base)
	go pace(c.Context(), theCollector, s)
	var printed sync.WaitGroup
	printed.Go(func() { printPython(c.Context(), out, s, cfg.Mounts) })
	return s, printed.Wait, nil
}

// printCode returns a function that prints the one-time code for signing in.
func printCode(out io.Writer) func(code string) {
	return func(code string) {
		fmt.Fprintf(out, "one-time code %s: a browser asks for it to sign in; do not enter it anywhere else\n", code)
	}
}

// printPython prints the last lines of the start, which need the start of an
// interpreter.
func printPython(ctx context.Context, out io.Writer, s *server.Server, mounts []string) {
	python, isolated := s.Python(ctx)
	if ctx.Err() != nil {
		return
	}
	fmt.Fprintf(out, "  Python       %s\n", python)
	switch {
	case len(mounts) > 0 && isolated:
		fmt.Fprintf(out, "  mounts       %s\n", strings.Join(mounts, ", "))
	case len(mounts) > 0:
		fmt.Fprintf(out, "  mounts       %s: of no effect, tasks that are not isolated see the files of this machine as they are\n", strings.Join(mounts, ", "))
	}
}

// stopping returns the message about what a stop waits for.
func stopping(tasks int) string {
	switch tasks {
	case 0:
		return "stopping, interrupt again to stop now"
	case 1:
		return "finishing 1 task, interrupt again to stop now"
	}
	return fmt.Sprintf("finishing %d tasks, interrupt again to stop now", tasks)
}
