//go:build unix

package interpreters_test

import (
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/run/sandbox"
)

// forger is code that speaks the runner's protocol itself. own is the nonce of
// its attempt, which it can find in the memory that it shares with the runner.
const forger = `
import gc, json, os, threading, time
def frame(nonce, kind, body): os.write(4, (len(body) + 17).to_bytes(4, "big") + kind + nonce + body)
def own():
    from runner.local import Channel
    return next(o for o in gc.get_objects() if isinstance(o, Channel))._nonce
def answer(nonce, text): frame(nonce, b"O", text.encode("utf-8", "surrogatepass")); frame(nonce, b"R", b"{}")
def says(text): answer(own(), text); time.sleep(60)
def raw(text): answer(own(), bytes.fromhex(text).decode("latin-1")); time.sleep(60)
def fails(text): frame(own(), b"R", json.dumps({"failure": {"type": text, "message": "m" * 100000}}).encode())
def logs(text): frame(own(), b"E", text.encode()); return 1
def guessed(): answer(b"n" * 16, '"forged"'); return 1
def early(): answer(own(), '"mine"'); return "shifted"
def late(): answer(own(), '"mine"'); time.sleep(0.3); return "shifted"
def refers(text): frame(own(), b"R", json.dumps({"output_ref": True, "output_bytes": 7}).encode()); time.sleep(60)
def frames():
    import sys
    f = sys._getframe()
    while f: yield repr(f.f_locals); f = f.f_back
def searches(given): return "verysecret" in "".join(frames())
def works(): answer(own(), '"mine"'); threading.Event().wait(60)
def spins(host, port):
    import socket
    s = socket.create_connection((host, port))
    answer(own(), '"mine"')
    while True: s.sendall(b"x"); time.sleep(0.005)
def honest(): return "honest"
`

func text(s string) map[string]json.RawMessage {
	quoted, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return map[string]json.RawMessage{"text": quoted}
}

// A task may answer for its own attempt; the next attempt returns its own
// result.
func TestTaskCannotAnswerForAnother(t *testing.T) {
	t.Parallel()
	for _, function := range []string{"early", "late", "works"} {
		t.Run(function, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			req := r.request(t, forger, function)
			req.Timeout = time.Second // works uses all of it, however early it answers
			result, _ := r.run(t, req)
			assert.Equal(t, `"mine"`, output(t, result))
			req.Entrypoint, req.Timeout = "flow:honest", 20*time.Second
			for range 4 {
				result, _ := r.run(t, req)
				assert.Equal(t, `"honest"`, output(t, result))
			}
		})
	}
	r := newRig(t)
	req := r.request(t, forger, "guessed")
	_, err := r.Run(t.Context(), req, func(sandbox.LogEvent) {})
	require.ErrorContains(t, err, "frame of another attempt")
	req.Entrypoint = "flow:honest"
	result, _ := r.run(t, req)
	assert.Equal(t, `"honest"`, output(t, result))
}

// A task that answers and continues gets no processor time outside of its
// attempt.
func TestNoCodeRunsBetweenTasks(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	l, params := listen(t)
	delete(params, "detach")
	req := r.request(t, forger, "spins")
	req.Params = params
	result, _ := r.run(t, req)
	assert.Equal(t, `"mine"`, output(t, result))
	conn, err := l.Accept()
	require.NoError(t, err)
	defer conn.Close()
	var silence error
	for silence == nil {
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(time.Second)))
		_, silence = conn.Read(make([]byte, 1024))
	}
	assert.ErrorIs(t, silence, os.ErrDeadlineExceeded, "it is stopped")
}

func TestForgedOutputsAreParsedStrictly(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for value, want := range map[string]string{
		`{"a": 1, "a": 2}`: `a key twice: "/a"`, `{"a": "\ud800"}`: "not JSON", `[1e999]`: "out of range", `1 2`: "data after", `{`: "unexpected end", ``: "unexpected end",
	} {
		req := r.request(t, forger, "says")
		req.Params = text(value)
		result, _ := r.run(t, req)
		require.NotNil(t, result.Failure, value)
		assert.Equal(t, sandbox.ArtifactSerializationError, result.Failure.Type)
		assert.Contains(t, result.Failure.Message, want)
	}
	req := r.request(t, forger, "refers")
	req.Params, req.OutputURL = text(""), at(r.url+"/out")
	result, _ := r.run(t, req)
	require.NotNil(t, result.Failure, "it says that its output is stored, and it is not")
	assert.Equal(t, sandbox.ArtifactSerializationError, result.Failure.Type)

	req = r.request(t, forger, "fails")
	req.Params = text("Nonsense")
	result, _ = r.run(t, req)
	require.NotNil(t, result.Failure)
	assert.Equal(t, sandbox.TaskFailedError, result.Failure.Type)
	assert.Less(t, len(result.Failure.Message), 5000)
}

// A link is a credential: the server uses it on behalf of the task.
func TestTaskSeesNoLink(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.put("/in", []byte(`[1]`))
	req := r.request(t, forger, "searches")
	req.Inputs = map[string]sandbox.Input{"given": {URL: at(r.url + "/in?sig=verysecret")}}
	req.OutputURL = at(r.url + "/out?sig=verysecret")
	result, _ := r.run(t, req)
	assert.Equal(t, "false", output(t, result))
}

func TestForgedEventsAreSanitized(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	req := r.request(t, forger, "logs")
	req.Params = text(`[1e18, "shout", "lib", "hello"]`)
	_, log := r.run(t, req)
	require.Len(t, log.list, 1)
	assert.Equal(t, "info lib hello\n", log.text())
	assert.WithinDuration(t, time.Now(), log.list[0].Time, time.Minute)
}
