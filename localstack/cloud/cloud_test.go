package cloud_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"millrace/functions/catalog"
	"millrace/localstack/client"
	"millrace/localstack/cloud/cloudtest"
	"millrace/localstack/embedded/signin"
	"millrace/localstack/emulators"
	"millrace/localstack/substrate"
)

// credentialsFile leads to a stack that is up, to run the suite against in place
// of one in the test's process.
var credentialsFile = flag.String("credentials", "", "credentials.json of a stack that is up and may call this machine")

// binary is the bootstrap for this machine, built once.
var binary string

// What the binary is made of: go test keeps results until an import changes, and
// would not know that the binary did.
var _ = catalog.All

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(func() int {
		defer emulators.StopAll()
		dir, err := os.MkdirTemp("", "millrace-cloud-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		binary = filepath.Join(dir, "bootstrap")
		build := exec.Command("go", "build", "-tags", "lambda.norpc", "-ldflags", "-s -w", "-o", binary, "millrace/functions/bootstrap")
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "build: %v\n%s", err, out)
			return 1
		}
		return m.Run()
	}())
}

// known is the client of the stack that the suite runs against.
func known(t *testing.T) *client.Client {
	t.Helper()
	if *credentialsFile == "" {
		c := cloudtest.Open(t, binary)
		c.Start()
		return c.Client
	}
	data, err := os.ReadFile(*credentialsFile)
	require.NoError(t, err)
	var c signin.Credentials
	require.NoError(t, json.Unmarshal(data, &c))
	return &client.Client{BaseURL: c.BaseURL, Token: c.APIKey}
}

// TestSuite runs the end-to-end tests over the synthesized templates: every step
// of them by the deployed functions, triggered as the templates say.
func TestSuite(t *testing.T) {
	api := known(t)
	api.HTTP = &http.Client{Timeout: 2 * time.Minute}
	substrate.Suite(t, substrate.At(t, api))
}
