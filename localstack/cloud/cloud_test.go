package cloud_test

import (
	"encoding/json"
	"flag"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	_ "millrace/functions/catalog" // the bootstrap is built from it
	"millrace/localstack/client"
	"millrace/localstack/cloud/cloudtest"
	"millrace/localstack/embedded/signin"
	"millrace/localstack/emulators"
	"millrace/localstack/proc/proctest"
	"millrace/localstack/proof/drivers"
)

// credentialsFile is the credentials file of a running stack to test, instead
// of one in the test's process.
var credentialsFile = flag.String("credentials", "", "credentials.json of a stack that is up and may call this machine")

// The bootstrap for this machine, and millrace, each built once.
var binary, program string

func TestMain(m *testing.M) {
	flag.Parse()
	code := proctest.Main(m, map[string]*string{proctest.Bootstrap: &binary, proctest.Local: &program})
	emulators.StopAll()
	os.Exit(code)
}

// known returns the credentials of the stack under test, and the prefix of its
// names; "" if that is not known.
func known(t *testing.T) (signin.Credentials, string) {
	t.Helper()
	if *credentialsFile == "" {
		c := cloudtest.Open(t, binary)
		c.Start()
		return c.Credentials, c.Prefix
	}
	data, err := os.ReadFile(*credentialsFile)
	require.NoError(t, err)
	var c signin.Credentials
	require.NoError(t, json.Unmarshal(data, &c))
	return c, ""
}

// TestSuite runs the end-to-end tests on the synthesized templates: all steps
// run in deployed functions, triggered as in the templates, each with the
// permissions of its role.
func TestSuite(t *testing.T) {
	c, prefix := known(t)
	api := &client.Client{BaseURL: c.BaseURL, Token: c.APIKey, HTTP: &http.Client{Timeout: 2 * time.Minute}}
	t.Run("API", func(t *testing.T) { drivers.Suite(t, drivers.At(t, api, c.LocalSecret)) })
	t.Run("Tour", func(t *testing.T) { testTour(t, c) })
	access := accessOf(t, c)
	assert.Empty(t, access.Denied, "each function keeps to its role")
	if prefix != "" {
		checkUnused(t, access.Unused, prefix)
	}
}
