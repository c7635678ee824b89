package interpreters_test

import (
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/embedded/interpreters"
	"millrace/shared/run/sandbox"
)

const alone = `
import socket, time, urllib.request
def sees(port):
    found = {"interfaces": [n for _, n in socket.if_nameindex()]}
    for name, address in {"loopback": ("127.0.0.1", port), "metadata": ("169.254.169.254", 80)}.items():
        try: socket.create_connection(address, timeout=2); found[name] = "reached"
        except OSError as e: found[name] = "no"
    s = socket.socket(socket.AF_UNIX)
    try: s.connect("\0millrace-test-%d" % port); found["abstract"] = "reached"
    except OSError: found["abstract"] = "no"
    l = socket.create_server(("127.0.0.1", 0)); socket.create_connection(l.getsockname())
    return found
def join(one, two, three=None): print("joining"); return [len(one), two, three]
def big(n): return "x" * n
def misses(gone): return 1
def late(slow): return 1
def forges(n):
    import gc
    from runner.local import Channel
    c = next(o for o in gc.get_objects() if isinstance(o, Channel))
    c.write((b"O", b'"' + b"x" * n + b'"'), (b"R", b"{}")); time.sleep(60)
def repeats(n):
    import gc
    from runner.local import Channel
    c = next(o for o in gc.get_objects() if isinstance(o, Channel))
    c.write((b"O", b'"' + b"x" * n + b'"'), (b"O", b'"' + b"x" * n + b'"')); time.sleep(60)
`

func withoutNetwork(t *testing.T, change ...func(*interpreters.Config)) (*rig, bool) {
	t.Helper()
	r := newRig(t, append(change, func(c *interpreters.Config) { c.Network = interpreters.NoNetwork })...)
	_, _, err := r.Mode(t.Context())
	if err != nil {
		// If namespaces cannot be created, tasks do not run, instead of running with
		// a network.
		require.ErrorContains(t, err, "takes no network away")
	}
	return r, err == nil
}

func TestNoNetwork(t *testing.T) {
	t.Parallel()
	r, ok := withoutNetwork(t)
	if !ok {
		return
	}
	l, params := listen(t)
	port := string(params["port"])
	abstract, err := net.Listen("unix", "@millrace-test-"+port)
	require.NoError(t, err)
	defer abstract.Close()
	go func() {
		for {
			if _, err := l.Accept(); err != nil {
				return
			}
		}
	}()
	req := r.request(t, alone, "sees")
	req.Params = map[string]json.RawMessage{"port": raw(port)}
	result, _ := r.run(t, req)
	assert.JSONEq(t, `{"interfaces": ["lo"], "loopback": "no", "metadata": "no", "abstract": "no"}`, output(t, result))

	host := newRig(t)
	req = host.request(t, alone, "sees")
	req.Params = map[string]json.RawMessage{"port": raw(port)}
	result, _ = host.run(t, req)
	assert.Contains(t, output(t, result), `"loopback":"reached"`, "with the host's network the listener is there")
}

// Without a network large values go through the runner's pipe.
func TestLargeValuesWithoutNetwork(t *testing.T) {
	t.Parallel()
	r, ok := withoutNetwork(t)
	if !ok {
		return
	}
	large, err := json.Marshal(string(make([]byte, 1<<20)))
	require.NoError(t, err)
	r.put("/one", large)
	r.put("/three", []byte(`{"from": "url"}`))
	req := r.request(t, alone, "join")
	req.Inputs = map[string]sandbox.Input{
		"one": {URL: at(r.url + "/one")}, "two": {Value: raw("[1,2]")}, "three": {URL: at(r.url + "/three")}, "unused": {URL: at("http://127.0.0.1:1/")},
	}
	for range 3 { // and again in the same interpreter
		result, log := r.run(t, req)
		assert.JSONEq(t, `[1048576, [1, 2], {"from": "url"}]`, output(t, result))
		assert.Equal(t, "info stdout joining\n", log.text())
	}
	req = r.request(t, alone, "big")
	req.OutputURL, req.Params = at(r.url+"/out"), map[string]json.RawMessage{"n": raw("5000000")}
	result, _ := r.run(t, req)
	require.Nil(t, result.Failure)
	assert.Equal(t, sandbox.Result{Uploaded: true, OutputBytes: 5000002}, result)
	r.mu.Lock()
	assert.Len(t, r.blobs["/out"], 5000002)
	r.mu.Unlock()
	req.Params["n"] = raw("10")
	result, _ = r.run(t, req)
	assert.Equal(t, `"xxxxxxxxxx"`, output(t, result))
	forged := r.request(t, alone, "forges")
	forged.OutputURL, forged.Params, forged.Tier = at(r.url+"/forged"), map[string]json.RawMessage{"n": raw("1000000")}, "micro"
	result, _ = r.run(t, forged)
	assert.True(t, result.Uploaded)
	forged.Entrypoint = "flow:repeats"
	_, err = r.Run(t.Context(), forged, func(sandbox.LogEvent) {})
	require.ErrorContains(t, err, "an inline output of 1000002 bytes", "which no runner sends")
}

func TestTransferTroubleWithoutNetwork(t *testing.T) {
	t.Parallel()
	r, ok := withoutNetwork(t, func(c *interpreters.Config) { interpreters.SetFetching(c, 300*time.Millisecond) })
	if !ok {
		return
	}
	stop := make(chan struct{})
	hang := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-stop }))
	defer hang.Close()
	defer close(stop)
	req := r.request(t, alone, "misses")
	req.Inputs = map[string]sandbox.Input{"gone": {URL: at(r.url + "/gone?sig=verysecret")}}
	_, err := r.Run(t.Context(), req, func(sandbox.LogEvent) {})
	require.ErrorContains(t, err, "an input could not be fetched: status 404")
	assert.NotContains(t, err.Error(), "verysecret")

	req.Entrypoint = "flow:late"
	req.Inputs = map[string]sandbox.Input{"slow": {URL: at(hang.URL)}}
	_, err = r.Run(t.Context(), req, func(sandbox.LogEvent) {})
	require.ErrorContains(t, err, "fetching the task's inputs took longer than 0.3 s", "which is not the task's fault")

	req = r.request(t, alone, "big")
	denied := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }))
	defer denied.Close()
	req.OutputURL, req.Params = at(denied.URL+"/?sig=verysecret"), map[string]json.RawMessage{"n": raw("100000")}
	_, err = r.Run(t.Context(), req, func(sandbox.LogEvent) {})
	require.ErrorContains(t, err, "the output could not be stored: status 403")
	assert.NotContains(t, err.Error(), "verysecret")
	req.Params["n"] = raw("1")
	result, _ := r.run(t, req)
	assert.Equal(t, `"x"`, output(t, result))
}
