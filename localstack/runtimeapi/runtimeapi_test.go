package runtimeapi_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/runtimeapi"
)

// process takes one event and posts the answer to it.
func process(t *testing.T, api *runtimeapi.API, mode string, answer io.Reader) (status int) {
	t.Helper()
	base := "http://" + api.Address() + "/2018-06-01/runtime/invocation/"
	event, err := http.Get(base + "next")
	require.NoError(t, err)
	require.NoError(t, event.Body.Close())
	req, err := http.NewRequest("POST", base+event.Header.Get("Lambda-Runtime-Aws-Request-Id")+"/response", answer)
	require.NoError(t, err)
	req.Header.Set("Lambda-Runtime-Function-Response-Mode", mode)
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	return res.StatusCode
}

func TestAnswersHaveALimit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		bytes   int
		chunked bool
		mode    string
		fits    bool
	}{
		"the largest":            {runtimeapi.MaxAnswer, false, "", true},
		"the largest, in chunks": {runtimeapi.MaxAnswer, true, "", true},
		"larger":                 {runtimeapi.MaxAnswer + 1, false, "", false},
		"larger, in chunks":      {runtimeapi.MaxAnswer + 1, true, "", false},
		"a stream":               {2 * runtimeapi.MaxAnswer, true, "streaming", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api, err := runtimeapi.Start()
			require.NoError(t, err)
			t.Cleanup(func() { _ = api.Close() }) // a test that failed leaves requests
			var answer io.Reader = strings.NewReader(strings.Repeat("x", c.bytes))
			if c.chunked {
				answer = struct{ io.Reader }{answer}
			}
			statuses := make(chan int, 1)
			go func() { statuses <- process(t, api, c.mode, answer) }()
			got, err := api.Invoke(t.Context(), runtimeapi.Event{Payload: []byte(`{}`)})
			if !c.fits {
				fault, ok := errors.AsType[*runtimeapi.Fault](err)
				require.True(t, ok, "%v", err)
				assert.Equal(t, "Function.ResponseSizeTooLarge", fault.Type)
				assert.Equal(t, http.StatusRequestEntityTooLarge, <-statuses)
				return
			}
			require.NoError(t, err)
			data, err := got.Bytes()
			require.NoError(t, err)
			assert.Len(t, data, c.bytes)
			assert.Equal(t, http.StatusAccepted, <-statuses)
		})
	}
}
