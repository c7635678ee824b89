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
	"time"

	"github.com/spf13/cobra"

	"millrace/localstack/cli/command"
	"millrace/localstack/cloud"
	"millrace/localstack/cloud/template"
	"millrace/localstack/embedded/server"
	"millrace/localstack/embedded/signin"
	"millrace/localstack/emulators"
	"millrace/localstack/proc"
)

// stopTimeout is how long a stack may take to stop.
const stopTimeout = 30 * time.Second

// cloudDir is the default directory of a stack.
const cloudDir = ".local"

func cloudCommand() *cobra.Command {
	return command.Group(&cobra.Command{
		Use:   "cloud",
		Short: "Run a deployment on this machine: the synthesized templates with their functions",
	}, upCommand(), downCommand())
}

// cloudOptions holds the flags of cloud up.
type cloudOptions struct {
	cloud.Config
	templates, on string
	loopback      bool
	detach        bool
}

func upCommand() *cobra.Command {
	var o cloudOptions
	c := &cobra.Command{
		Use:   "up",
		Short: "Create the resources of the templates and run their functions until SIGTERM",
		Long: "Creates the resources of the synthesized templates in LocalStack, or in DynamoDB Local and moto,\n" +
			"and runs their functions. Nothing is kept: the next start begins anew.",
		Args: command.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if o.detach {
				return o.spawn(c)
			}
			return o.up(c.Context(), c.OutOrStdout())
		},
	}
	f := c.Flags()
	f.StringVar(&o.templates, "template", "cdk.out", "folder of the synthesized templates")
	f.StringVar(&o.Dir, "data", cloudDir, "folder of the process number, log, credentials and the functions' output")
	f.StringVar(&o.Listen, "listen", server.DefaultListen, "host:port of the API; port 0 picks a free one")
	f.StringVar(&o.on, "on", "auto", "what stands in for AWS: localstack, emulators, or auto: LocalStack where its token and Docker are")
	f.StringVar(&o.Bootstrap, "bootstrap", "", "program of the functions, built for this machine (default: bootstrap beside this program)")
	f.StringVar(&o.Python, "python", "", "interpreter of the sandbox functions (default: python3 on PATH)")
	f.StringArrayVar(&o.SuperAdmins, "super-admin", nil, "email of a platform administrator; repeat for more")
	f.BoolVar(&o.loopback, "allow-loopback", false, "tasks of type http, sensors and notification channels may call this machine")
	f.StringArrayVar(&o.AllowRanges, "allow-range", nil, "CIDR range that they may call besides public addresses; repeat for more")
	f.StringVar(&o.LogLevel, "log-level", "", "debug, info, warn or error, of functions (default: the templates')")
	f.BoolVar(&o.detach, "detach", false, "go on in the background once it is up; cloud down ends it")
	return c
}

// spawn starts the same command in the background.
func (o *cloudOptions) spawn(c *cobra.Command) error {
	program, err := command.Program()
	if err != nil {
		return err
	}
	var args []string
	for _, arg := range os.Args[1:] {
		if arg != "--detach" && arg != "--detach=true" {
			args = append(args, arg)
		}
	}
	message, err := proc.Spawn(c.Context(), o.Dir, program, args...)
	if err != nil {
		return err
	}
	_, err = io.WriteString(c.OutOrStdout(), message)
	return err
}

// up runs the stack until ctx ends.
func (o *cloudOptions) up(ctx context.Context, out io.Writer) (err error) {
	began := time.Now()
	assembly, err := template.Load(os.DirFS(o.templates))
	if err != nil {
		return fmt.Errorf("%s: %w (make synth writes it)", o.templates, err)
	}
	if err := o.complete(); err != nil {
		return err
	}
	lock, err := proc.Take(o.Dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Unlock()) }()
	// The data of an earlier stack was deleted, including its keys.
	if err := os.Remove(filepath.Join(o.Dir, signin.CredentialsFile)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	logs := &outputs{dir: filepath.Join(o.Dir, "logs")}
	if err := logs.clear(); err != nil {
		return err
	}
	defer logs.close()

	on, why := o.on, "it was asked for"
	if on == "auto" {
		on, why = emulators.Choose(ctx)
	}
	services, err := emulators.Start(ctx, on, o.Dir, os.Stderr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, services.Stop()) }()
	o.Services, o.Output, o.Assembly, o.SignInCode = services, logs.of, assembly, printCode(os.Stderr)
	o.Log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	stack, err := cloud.Open(ctx, o.Config)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stack.Close()) }()
	stack.Start()
	if err := proc.Ready(out, o.banner(stack, why, time.Since(began))); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return nil
	case <-services.Died():
		return fmt.Errorf("what stands in for AWS (%s) ended by itself", services.Name)
	}
}

// complete sets defaults and rejects invalid flags.
func (o *cloudOptions) complete() (err error) {
	if o.Dir, err = filepath.Abs(o.Dir); err != nil {
		return err
	}
	if o.on != "auto" && o.on != emulators.LocalStack && o.on != emulators.Emulators {
		return command.Usage(fmt.Errorf("--on is auto, %s or %s, not %q", emulators.LocalStack, emulators.Emulators, o.on))
	}
	if o.loopback {
		o.AllowRanges = append(o.AllowRanges, "127.0.0.0/8", "::1/128")
	}
	if o.Bootstrap == "" {
		program, err := command.Program()
		if err != nil {
			return err
		}
		o.Bootstrap = filepath.Join(filepath.Dir(program), "bootstrap")
	}
	if o.Bootstrap, err = filepath.Abs(o.Bootstrap); err != nil {
		return err
	}
	if _, err := os.Stat(o.Bootstrap); err != nil {
		return fmt.Errorf("the program of the functions: %w (make bootstrap builds it)", err)
	}
	return nil
}

func (o *cloudOptions) banner(c *cloud.Cloud, why string, took time.Duration) string {
	var b strings.Builder
	d := c.Deployment
	fmt.Fprintf(&b, "millrace runs %s on %s (%s), up after %.1f s\n", o.templates, o.Services.Name, why, took.Seconds())
	fmt.Fprintf(&b, "  resources    %d, %d of them functions; %d without counterpart here\n", d.Made, len(d.Functions), d.Absent)
	fmt.Fprintf(&b, "  API          %s\n", c.URL)
	fmt.Fprintf(&b, "  credentials  %s\n", filepath.Join(o.Dir, signin.CredentialsFile))
	fmt.Fprintf(&b, "  logs         %s\n", filepath.Join(o.Dir, "logs"))
	return b.String()
}

func downCommand() *cobra.Command {
	var dir string
	c := &cobra.Command{
		Use:   "down",
		Short: "Stop the stack that cloud up --detach started, with all its processes",
		Args:  command.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			was, err := proc.Stop(c.Context(), dir, stopTimeout)
			if err != nil {
				return err
			}
			if !was {
				fmt.Fprintf(c.OutOrStdout(), "nothing is up in %s\n", dir)
			}
			return emulators.Clean(dir, os.Stderr)
		},
	}
	c.Flags().StringVar(&dir, "data", cloudDir, "folder that cloud up was given")
	return c
}

// outputs holds a log file for each function.
type outputs struct {
	dir string

	mu    sync.Mutex
	files map[string]*os.File
}

func (o *outputs) clear() error {
	return errors.Join(os.RemoveAll(o.dir), os.MkdirAll(o.dir, 0o700))
}

// of returns the file of a function, or stderr if it cannot be created.
func (o *outputs) of(function string) io.Writer {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.files[function] == nil {
		file, err := os.OpenFile(filepath.Join(o.dir, function+".log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
		if err != nil {
			return os.Stderr
		}
		if o.files == nil {
			o.files = map[string]*os.File{}
		}
		o.files[function] = file
	}
	return o.files[function]
}

func (o *outputs) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, file := range o.files {
		_ = file.Close() // a log file
	}
}
