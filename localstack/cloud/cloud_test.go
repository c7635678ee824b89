package cloud_test

import (
	"encoding/json"
	"flag"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	_ "millrace/functions/catalog" // what the bootstrap is made of
	"millrace/localstack/client"
	"millrace/localstack/cloud/cloudtest"
	"millrace/localstack/embedded/signin"
	"millrace/localstack/emulators"
	"millrace/localstack/proc/proctest"
	"millrace/localstack/proof/drivers"
)

// credentialsFile leads to a stack that is up, to run the suite against in place
// of one in the test's process.
var credentialsFile = flag.String("credentials", "", "credentials.json of a stack that is up and may call this machine")

// The bootstrap for this machine and millrace-local, built once.
var binary, program string

func TestMain(m *testing.M) {
	flag.Parse()
	code := proctest.Main(m, map[string]*string{proctest.Bootstrap: &binary, proctest.Local: &program})
	emulators.StopAll()
	os.Exit(code)
}

// known are the credentials of the stack that the suite runs against.
func known(t *testing.T) signin.Credentials {
	t.Helper()
	if *credentialsFile == "" {
		c := cloudtest.Open(t, binary)
		c.Start()
		return c.Credentials
	}
	data, err := os.ReadFile(*credentialsFile)
	require.NoError(t, err)
	var c signin.Credentials
	require.NoError(t, json.Unmarshal(data, &c))
	return c
}

// TestSuite runs the end-to-end tests over the synthesized templates: every step
// of them by the deployed functions, triggered as the templates say.
func TestSuite(t *testing.T) {
	c := known(t)
	api := &client.Client{BaseURL: c.BaseURL, Token: c.APIKey, HTTP: &http.Client{Timeout: 2 * time.Minute}}
	drivers.Suite(t, drivers.At(t, api, c.LocalSecret))
}
