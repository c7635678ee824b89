package general

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"millrace/localstack/cli/command"
	"millrace/localstack/cli/output"
	"millrace/localstack/cli/session"
	"millrace/localstack/client"
)

// skew is the accepted difference between the clocks of client and server.
const skew = 30 * time.Second

// finding is the result of one check.
type finding struct {
	What   string `json:"what"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
}

func doctorCommand(s *session.Session, version string) *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "Check server, credential, keys, clock, versions, isolation, export of spans and Python",
		Args:  command.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			findings := examine(c.Context(), s, version)
			out := s.Out(c)
			well := true
			for _, f := range findings {
				well = well && f.OK
				if err := printFinding(out, f); err != nil {
					return err
				}
			}
			if !well {
				return command.Exit(command.Failure)
			}
			return nil
		},
	}
}

func printFinding(out *output.Printer, f finding) error {
	if out.JSON {
		return out.Line(f)
	}
	mark := "ok"
	if !f.OK {
		mark = "WRONG"
	}
	out.Printf("%-6s %-11s %s\n", mark, f.What, f.Detail)
	return nil
}

// examine runs all checks; if no server answers, only those on this machine.
func examine(ctx context.Context, s *session.Session, version string) (findings []finding) {
	add := func(what string, ok bool, format string, args ...any) {
		findings = append(findings, finding{what, ok, fmt.Sprintf(format, args...)})
	}
	add("version", true, "%s", version)
	python, err := pythonVersion(ctx)
	add("python", err == nil, "%s", textOr(python, err))
	target, err := s.Target()
	if err != nil {
		add("server", false, "%v", err)
		return findings
	}
	api := target.Client()
	began := time.Now()
	res, err := api.Send(ctx, http.MethodGet, "/health", nil, nil)
	if err != nil {
		add("server", false, "%s (%s): %v", target.URL, target.Source, reach(err))
		return findings
	}
	_ = res.Body.Close() // only the header matters
	add("server", true, "%s (%s), answers in %s", target.URL, target.Source, time.Since(began).Round(time.Millisecond))
	if date, err := http.ParseTime(res.Header.Get("Date")); err == nil {
		off := time.Since(date).Round(time.Second)
		add("clock", off.Abs() < skew, "differs from the server's by %s", off.Abs())
	}
	var health client.Health
	err = api.Do(ctx, http.MethodGet, "/health", nil, &health)
	add("health", err == nil && health.Status == "healthy", "%s, version %s", textOr(health.Status, err), health.Version)
	for _, part := range health.Components {
		if part.Status != "healthy" {
			add("component", false, "%s: %s", part.Name, part.Message)
		}
	}
	var me struct {
		Email string `json:"user_email"`
		Org   string `json:"org_id"`
		Role  string `json:"role"`
	}
	err = api.Do(ctx, http.MethodGet, "/me", nil, &me)
	add("credential", err == nil, "%s", textOr(fmt.Sprintf("%s, %s in %s", me.Email, cmp.Or(me.Role, "by an API key"), me.Org), err))
	if err != nil {
		return findings
	}
	findings = append(findings, credentialOf(ctx, target)...)
	findings = append(findings, stateOf(ctx, target)...)
	var backends struct {
		Items []struct {
			Name      string `json:"name"`
			Available bool   `json:"available"`
			Message   string `json:"message"`
			Isolation *struct {
				Detail string `json:"detail"`
			} `json:"isolation"`
		} `json:"items"`
	}
	if err := api.Do(ctx, http.MethodGet, "/backends", nil, &backends); err != nil {
		add("executors", false, "%s", textOr("", err))
	}
	for _, b := range backends.Items {
		detail := b.Name + " " + b.Message
		if b.Isolation != nil {
			detail += " " + b.Isolation.Detail
		}
		add("executor", b.Available, "%s", strings.Join(strings.Fields(detail), " "))
	}
	return findings
}

// textOr returns text, or the error's message if there is one.
func textOr(text string, err error) string {
	if refused, ok := errors.AsType[*client.Error](err); ok {
		return refused.Detail()
	}
	if err != nil {
		return err.Error()
	}
	return text
}

// reach adds advice to a network error.
func reach(err error) error {
	if errors.Is(err, syscall.ECONNREFUSED) {
		return errors.New("nothing answers there: start a server with millrace serve")
	}
	return err
}

// pythonVersion returns the version of the interpreter that deploy and serve use.
func pythonVersion(ctx context.Context) (string, error) {
	path, err := exec.LookPath("python3")
	if err != nil {
		return "", errors.New("no python3 on PATH: deploy and Python tasks of a server here need 3.10 or newer")
	}
	out, err := exec.CommandContext(ctx, path, "-I", "-S", "-c",
		"import sys; print('%d.%d.%d' % sys.version_info[:3]); sys.exit(sys.version_info < (3, 10))").Output()
	version := strings.TrimSpace(string(out))
	if err != nil {
		return "", fmt.Errorf("%s is Python %s: deploy and Python tasks need 3.10 or newer", path, version)
	}
	return path + " " + version, nil
}
