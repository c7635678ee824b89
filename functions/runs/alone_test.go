package runs_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/proof/localtest"
	"millrace/shared/platform/table"
)

// held returns a world with n runs and the address of a server whose lists stop
// after their first page until resume is called.
func held(t *testing.T, n int) (w world, url string, resume func()) {
	t.Helper()
	proceed := make(chan struct{})
	w = idle(t, localtest.Options{Log: discard, Wrap: func(inner table.Table) table.Table {
		return &watched{Table: inner, onList: func(q table.Query) error {
			if q.Start != "" {
				<-proceed
			}
			return nil
		}}
	}})
	w.history(t, n)
	server := httptest.NewServer(w.API.Handler())
	t.Cleanup(server.Close)
	return w, server.URL + "/runs", func() { close(proceed) }
}

// begun begins a list and reads its first run, so that it has the turn.
func (w world) begun(t *testing.T, url string) (*http.Response, *json.Decoder) {
	t.Helper()
	res := w.open(t, url)
	t.Cleanup(func() { _ = res.Body.Close() })
	require.Equal(t, 200, res.StatusCode)
	d := json.NewDecoder(res.Body)
	for range 3 { // {"items":[
		_, err := d.Token()
		require.NoError(t, err)
	}
	var first any
	require.NoError(t, d.Decode(&first))
	return res, d
}

func TestOneLongListAtATime(t *testing.T) {
	t.Parallel()
	w, url, resume := held(t, 250)
	res, _ := w.begun(t, url)
	second := w.Do(t, w.A.Key, "GET", "/runs", nil).Require(t, 429)
	assert.NotEmpty(t, second.Header.Get("Retry-After"))
	assert.Contains(t, second.String(t, "detail"), "one at a time")
	assert.Len(t, w.list(t, "?limit=50"), 50, "a list with a limit is not refused")
	assert.Empty(t, w.list(t, "?flow_name=none"), "nor a short one")
	w.Do(t, w.B.Key, "GET", "/runs", nil).Require(t, 200)

	resume()
	_, err := io.Copy(io.Discard, res.Body)
	require.NoError(t, err)
	assert.Eventually(t, func() bool { return w.Do(t, w.A.Key, "GET", "/runs", nil).Code == 200 }, time.Minute, 5*time.Millisecond,
		"the turn ends with the list")
}

func TestTurnOfALongListEndsWithItsClient(t *testing.T) {
	t.Parallel()
	w, url, resume := held(t, 250)
	res, _ := w.begun(t, url)
	require.NoError(t, res.Body.Close())
	resume()
	assert.Eventually(t, func() bool { return w.Do(t, w.A.Key, "GET", "/runs", nil).Code == 200 }, time.Minute, 5*time.Millisecond)
}

func TestTurnOfALongListExpires(t *testing.T) {
	t.Parallel()
	w, url, resume := held(t, 250)
	res, _ := w.begun(t, url) // as of a process that dies
	w.Clock.Advance(time.Minute + time.Second)
	next := w.open(t, url)
	defer next.Body.Close()
	assert.Equal(t, 200, next.StatusCode, "the lease is over")
	resume()
	_, err := io.Copy(io.Discard, res.Body)
	assert.Error(t, err, "a list that has lost its turn ends, and not as if it were whole")
	data, err := io.ReadAll(next.Body)
	require.NoError(t, err)
	var whole struct{ Items []any }
	require.NoError(t, json.Unmarshal(data, &whole), fmt.Sprint(len(data)))
	assert.Len(t, whole.Items, 250)
}
