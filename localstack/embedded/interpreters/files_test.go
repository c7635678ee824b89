//go:build unix

package interpreters_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/embedded/interpreters"
	"millrace/shared/run/sandbox"
)

// shelf stores the files of a test.
type shelf struct {
	url   string
	saved int
}

func (s *shelf) Save(context.Context) (reference, url string, err error) {
	if s.saved == 3 {
		return "", "", errors.New("the shelf is full")
	}
	s.saved++
	reference = fmt.Sprintf("shelf/%d", s.saved)
	return reference, s.url + "/" + reference, nil
}

func (s *shelf) Open(_ context.Context, reference string) (url string, err error) {
	if reference == "forged" {
		return "", errors.New("that is no reference to a file of a task")
	}
	return s.url + "/" + reference, nil
}

const filesSource = `
import os, threading
from millrace import File, TaskFailedError

def save(ctx):
    with open("large.bin", "wb") as file:
        for _ in range(5):
            file.write(os.urandom(1) * (1 << 20))
    with open("empty.txt", "w"):
        pass
    large = ctx.save_file("large.bin")
    os.unlink("large.bin")
    return {"large": large, "more": [ctx.save_file("empty.txt", name="none.txt")]}

def load(files, big: File = None):
    large, empty = files["large"], files["more"][0]
    data = large.read_bytes()
    try:
        large.open("w")
    except ValueError as error:
        told = str(error)
    with open(empty) as file:
        assert file.read() == ""
    assert large.path == large.path
    return [large.name, large.size, len(data), len(set(data[i] for i in range(0, len(data), 4096))), empty.name, os.path.basename(empty.path), told]

def threads(ctx):
    open("a", "w").write("x" * 100000)
    made = []
    both = [threading.Thread(target=lambda: made.append(ctx.save_file("a").key)) for _ in range(2)]
    for t in both: t.start()
    for t in both: t.join()
    return sorted(made)

def full(ctx):
    open("a", "w").write("x")
    try:
        for _ in range(4): ctx.save_file("a")
    except TaskFailedError as error:
        return str(error)

def gone(file: File):
    file.open()

def quiet(ctx):
    open("a", "w").write("x")
    return ctx.save_file("a").name
`

func TestFiles(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	files := &shelf{url: r.url}
	call := func(function string, inputs map[string]sandbox.Input) (sandbox.Result, string) {
		req := r.request(t, filesSource, function)
		req.Files, req.Inputs = files, inputs
		result, log := r.run(t, req)
		return result, log.text()
	}
	saved, log := call("save", nil)
	require.Nil(t, saved.Failure, log)
	assert.JSONEq(t, `{
		"large": {"$file": {"key": "shelf/1", "name": "large.bin", "size": 5242880}},
		"more": [{"$file": {"key": "shelf/2", "name": "none.txt", "size": 0}}]}`, string(saved.Output))

	given := map[string]sandbox.Input{"files": {Value: saved.Output}}
	loaded, log := call("load", given)
	require.Nil(t, loaded.Failure, log)
	var got []any
	require.NoError(t, json.Unmarshal(loaded.Output, &got))
	assert.Equal(t, []any{"large.bin", 5242880.0, 5242880.0}, got[:3])
	assert.LessOrEqual(t, got[3], 5.0)
	assert.Equal(t, []any{"none.txt", "none.txt", "files of tasks are read-only: write another one and save that"}, got[4:])

	// Also for an input that is fetched.
	r.put("/big", saved.Output)
	loaded, log = call("load", map[string]sandbox.Input{"files": {URL: at(r.url + "/big")}})
	require.Nil(t, loaded.Failure, log)

	files.saved = 0
	both, log := call("threads", nil)
	require.Nil(t, both.Failure, log)
	assert.JSONEq(t, `["shelf/1", "shelf/2"]`, string(both.Output))
	files.saved = 0
	full, log := call("full", nil)
	require.Nil(t, full.Failure, log)
	assert.JSONEq(t, `"the file 'a' could not be saved: the shelf is full"`, string(full.Output))

	for reference, want := range map[string]string{
		"forged": "the file 'x' could not be opened: that is no reference to a file of a task", "gone": "the file 'x' could not be opened: status 404",
	} {
		value := fmt.Sprintf(`{"$file": {"key": %q, "name": "x", "size": 1}}`, reference)
		result, _ := call("gone", map[string]sandbox.Input{"file": {Value: json.RawMessage(value)}})
		require.NotNil(t, result.Failure)
		assert.Equal(t, want, result.Failure.Message)
	}

	none := r.request(t, filesSource, "quiet")
	result, _ := r.run(t, none)
	require.NotNil(t, result.Failure)
	assert.Equal(t, "the file 'a' could not be saved: there is no place for files here", result.Failure.Message)
}

// TestBusyStoreIsAskedAgain: for a while, and not if it has refused a file for good.
func TestBusyStoreIsAskedAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *interpreters.Config) { interpreters.SetPatience(c, 2*time.Second) })
	call := func(busy ...int) (sandbox.Result, int) {
		r.mu.Lock()
		r.busy = busy
		r.mu.Unlock()
		req := r.request(t, filesSource, "quiet")
		req.Files = &shelf{url: r.url}
		result, _ := r.run(t, req)
		r.mu.Lock()
		defer r.mu.Unlock()
		left := len(r.busy)
		r.busy = nil
		return result, left
	}
	result, left := call(503, 429, 507)
	require.Nil(t, result.Failure)
	assert.JSONEq(t, `"a"`, string(result.Output))
	assert.Zero(t, left)
	assert.Equal(t, "x", string(r.blobs["/shelf/1"]))

	for status, most := range map[int]int{503: 90, 403: 99} {
		all := make([]int, 100)
		for i := range all {
			all[i] = status
		}
		result, left := call(all...)
		require.NotNil(t, result.Failure)
		assert.Equal(t, fmt.Sprintf("the file 'a' could not be saved: status %d", status), result.Failure.Message)
		assert.GreaterOrEqual(t, left, most, "asked too often")
	}
}
