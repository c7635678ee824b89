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
	"millrace/localstack/daemon"
	"millrace/localstack/embedded/signin"
	"millrace/localstack/emulators"
	"millrace/localstack/proof/drivers"
)

// credentialsFile leads to a stack that is up, to run the suite against in place
// of one in the test's process.
var credentialsFile = flag.String("credentials", "", "credentials.json of a stack that is up and may call this machine")

// The bootstrap for this machine and millrace-local, built once.
var binary, program string

// What the programs are made of: go test keeps results until an import changes,
// and would not know that a program did.
var (
	_ = catalog.All
	_ = daemon.Stop
)

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
		binary, program = filepath.Join(dir, "bootstrap"), filepath.Join(dir, "millrace-local")
		for path, source := range map[string]string{binary: "millrace/functions/bootstrap", program: "millrace/localstack"} {
			build := exec.Command("go", "build", "-tags", "lambda.norpc", "-ldflags", "-s -w", "-o", path, source)
			if out, err := build.CombinedOutput(); err != nil {
				fmt.Fprintf(os.Stderr, "build %s: %v\n%s", source, err, out)
				return 1
			}
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
	drivers.Suite(t, drivers.At(t, api))
}
