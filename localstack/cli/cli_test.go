package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/cli/bundle"
	"millrace/localstack/cli/command"
	"millrace/localstack/client"
)

// TestClientCommandsDoNotLinkTheServer keeps the server's libraries out of the
// users' binary, where every command would wait for their initialization.
func TestClientCommandsDoNotLinkTheServer(t *testing.T) {
	t.Parallel()
	// -e: the embedded program does not exist here.
	out, err := exec.CommandContext(t.Context(), "go", "list", "-e", "-deps", "-tags", "bundle", "millrace/localstack").Output()
	require.NoError(t, err)
	require.Contains(t, string(out), "millrace/localstack/cli/runs\n")
	const leaf = "millrace/shared/platform/signature" // needs only the standard library
	for _, imported := range strings.Fields(string(out)) {
		if imported == leaf {
			continue
		}
		for _, heavy := range []string{
			"github.com/cockroachdb/", "github.com/danielgtaylor/huma", "github.com/santhosh-tekuri/jsonschema", "github.com/versity/",
			"github.com/aws/", "cel.dev/", "millrace/shared/", "millrace/localstack/embedded/",
		} {
			assert.False(t, strings.HasPrefix(imported, heavy), "a client command imports %s", imported)
		}
	}
}

// TestUsersBinaryListsAllCommands compares the descriptions of the commands that it
// leaves to the full program with the full program's own.
func TestUsersBinaryListsAllCommands(t *testing.T) {
	t.Parallel()
	var whole []bundle.Command
	for _, c := range servingCommands("1") {
		whole = append(whole, bundle.Command{Name: c.Name(), Short: c.Short})
	}
	assert.ElementsMatch(t, whole, bundle.Commands)
}

func TestExitCodesOfErrors(t *testing.T) {
	t.Parallel()
	refused := func(status int) error {
		return fmt.Errorf("daily: %w", &client.Error{Status: status, Path: "/x", Body: `{"detail":"why"}`, RequestID: "r1"})
	}
	for want, errs := range map[int][]error{
		command.Done:        {nil, command.Exit(command.Done)},
		command.Failure:     {errors.New("x"), refused(http.StatusConflict), refused(500)},
		command.WrongUsage:  {command.Usagef("x")},
		command.TimedOut:    {command.Exit(command.TimedOut)},
		command.NotAllowed:  {refused(401), refused(403)},
		command.NotFound:    {refused(404), refused(410)},
		command.Interrupted: {context.Canceled, fmt.Errorf("get: %w", context.Canceled)},
	} {
		for _, err := range errs {
			assert.Equal(t, want, code(err), "%v", err)
		}
	}
	assert.Equal(t, "daily: why (request r1)", explain(refused(409)))
	assert.Contains(t, explain(refused(401)), "millrace doctor")
	assert.Empty(t, explain(command.Exit(command.TimedOut)))
	unreachable := &url.Error{Op: "Get", URL: "http://127.0.0.1:1/runs?limit=1", Err: syscall.ECONNREFUSED}
	assert.Contains(t, explain(fmt.Errorf("daily: %w", unreachable)), "http://127.0.0.1:1 does not answer: ")
}

// TestEveryCommandIsDescribed checks that each command has a short description,
// checks its arguments, and describes each flag.
func TestEveryCommandIsDescribed(t *testing.T) {
	t.Parallel()
	var look func(c *cobra.Command)
	look = func(c *cobra.Command) {
		assert.NotEmpty(t, c.Short, c.CommandPath())
		assert.NotNil(t, c.Args, "%s says nothing of arguments", c.CommandPath())
		assert.NotNil(t, c.RunE, c.CommandPath())
		for _, below := range c.Commands() {
			look(below)
		}
	}
	c := Command("1")
	look(c)
	c.SetArgs([]string{"no-such-command"})
	assert.Equal(t, command.WrongUsage, code(c.Execute()))
	c.SetArgs([]string{"output", "last"})
	err := c.Execute()
	assert.Equal(t, command.WrongUsage, code(err))
	require.EqualError(t, err, "usage: millrace output RUN TASK[i] [flags] (arguments given: 1)")
}
