// Package cloudtest opens deployments for tests: of the repository's templates,
// with unique names, on DynamoDB Local and moto.
package cloudtest

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/client"
	"millrace/localstack/cloud"
	"millrace/localstack/cloud/resources"
	"millrace/localstack/cloud/template"
	"millrace/localstack/emulators"
	"millrace/localstack/proc"
	"millrace/localstack/runtimeapi"
	"millrace/shared/platform/ids"
)

// deployed is the prefix of all names in the repository's templates.
const deployed = "millrace-acme-prod"

// Version is the version of the service in these deployments.
const Version = "1.2.3"

// Cloud is a deployment with a workspace. It is closed at the end of its test.
type Cloud struct {
	*cloud.Cloud
	OrgID  string         // of the workspace
	Client *client.Client // with its API key
	Prefix string         // of the names of functions, queues and other resources
}

// Options change a deployment. The zero Options are the defaults.
type Options struct {
	Templates map[string][]byte    // by file name, with the same prefix in all names; nil: the repository's
	Services  *emulators.Services  // nil: DynamoDB Local and moto
	LogLevel  string               // of functions; "": warn
	Output    func(written []byte) // is called with what functions write, except metrics; may be nil
}

// Open creates a deployment with new resources and serves it. No message is
// delivered before Feed or Deliver. binary is the bootstrap.
func Open(t testing.TB, binary string) *Cloud {
	t.Helper()
	return OpenWith(t, binary, Options{})
}

// OpenWith is like Open, with options.
func OpenWith(t testing.TB, binary string, o Options) *Cloud {
	t.Helper()
	if o.Templates == nil {
		o.Templates = templates(t)
	}
	if o.Services == nil {
		o.Services = emulators.Shared(t)
	}
	id := "test-" + strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(ids.Token(9)))
	said := &proc.Tail{}
	c, err := cloud.Open(t.Context(), cloud.Config{
		Assembly: load(t, o.Templates, id), Services: o.Services, Bootstrap: binary, Dir: t.TempDir(), Version: Version,
		AllowRanges: []string{"127.0.0.0/8"}, LogLevel: cmp.Or(o.LogLevel, "warn"),
		Output: func(function string) io.Writer { return marked{said, function, o.Output} },
		Log:    slog.New(slog.NewTextHandler(said, nil)),
	})
	require.NoError(t, err, "%s", said)
	t.Cleanup(func() {
		require.NoError(t, c.Close())
		assert.Empty(t, c.Access.Denied(), "each function keeps to its role")
		if t.Failed() {
			t.Logf("the deployment wrote:\n%s", said)
		}
	})
	return &Cloud{
		Cloud: c, OrgID: c.Credentials.OrgID, Prefix: id + "-",
		Client: &client.Client{BaseURL: c.URL, Token: c.Credentials.APIKey},
	}
}

// Templates returns the repository's templates with another name prefix.
func Templates(t testing.TB, prefix string) fs.FS {
	t.Helper()
	return renamed(t, templates(t), prefix)
}

// Assembly loads the templates of Templates.
func Assembly(t testing.TB, prefix string) *template.Assembly {
	t.Helper()
	return load(t, templates(t), prefix)
}

// templates returns the repository's templates.
func templates(t testing.TB) map[string][]byte {
	t.Helper()
	root, err := emulators.Root()
	require.NoError(t, err)
	dir := filepath.Join(root, "infra", "testdata")
	names, err := filepath.Glob(filepath.Join(dir, "*.template.json"))
	require.NoError(t, err)
	require.NotEmpty(t, names, "templates in %s", dir)
	out := map[string][]byte{}
	for _, name := range names {
		out[filepath.Base(name)], err = os.ReadFile(name)
		require.NoError(t, err)
	}
	return out
}

func renamed(t testing.TB, files map[string][]byte, prefix string) fs.FS {
	t.Helper()
	out := fstest.MapFS{}
	for name, data := range files {
		require.Contains(t, string(data), deployed)
		out[name] = &fstest.MapFile{Data: bytes.ReplaceAll(data, []byte(deployed), []byte(prefix))}
	}
	return out
}

func load(t testing.TB, files map[string][]byte, prefix string) *template.Assembly {
	t.Helper()
	a, err := template.Load(renamed(t, files, prefix))
	require.NoError(t, err)
	return a
}

// Invoke invokes a function of the catalog with an event. Errors:
// *runtimeapi.Fault.
func (c *Cloud) Invoke(ctx context.Context, name string, payload []byte) (*runtimeapi.Answer, error) {
	return c.Fleet.Invoke(ctx, c.Prefix+name, "", payload)
}

// Idle returns the number of idle processes of a function, for a sandbox
// function those of a workspace.
func (c *Cloud) Idle(name, workspace string) int { return c.Fleet.Idle(c.Prefix+name, workspace) }

// Feed starts delivering the messages of these queues.
func (c *Cloud) Feed(t testing.TB, queues ...string) {
	t.Helper()
	for _, name := range queues {
		m, err := c.mapping(name)
		require.NoError(t, err)
		c.Triggers.Feed(m)
	}
}

// Deliver waits up to wait seconds for messages of a queue and passes them to
// its function in one event. It returns their number.
func (c *Cloud) Deliver(ctx context.Context, queue string, wait int32) (int, error) {
	m, err := c.mapping(queue)
	if err != nil {
		return 0, err
	}
	return c.Triggers.Deliver(ctx, m, wait)
}

func (c *Cloud) mapping(queue string) (resources.Mapping, error) {
	for _, m := range c.Deployment.Mappings {
		if m.Queue == c.Prefix+queue {
			return m, nil
		}
	}
	return resources.Mapping{}, fmt.Errorf("no function takes messages of %s", queue)
}

// marked prefixes a function's output with its name.
type marked struct {
	out      io.Writer
	function string
	seen     func([]byte)
}

// Write writes b with the function's name, unless it contains only metrics.
func (m marked) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte(`"CloudWatchMetrics"`)) {
		return len(b), nil
	}
	if m.seen != nil {
		m.seen(b)
	}
	if _, err := fmt.Fprintf(m.out, "%s: %s", m.function, b); err != nil {
		return 0, err
	}
	return len(b), nil
}
