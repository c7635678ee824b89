// Package blobtest is the conformance suite of [blob.Store]. Every driver and
// server passes it; a test against an emulator that falls short lists each
// [Gap]. The suite uses presigned URLs by plain HTTP, as clients do, writes
// only under random workspaces, and removes them.
package blobtest

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/platform/blob"
	"millrace/shared/platform/ids"
)

// Gap is a case that is left out because the server a driver is tested against,
// such as an emulator, differs from S3. Gaps are of servers, never of drivers.
type Gap struct {
	Case   string // such as "PresignExpires"
	Reason string // what the server does instead
}

// Exercise runs the suite and logs the gaps. newStore returns a usable store;
// it may return the same one each time, because each test has its own
// workspace.
func Exercise(t *testing.T, newStore func(t *testing.T) blob.Store, gaps ...Gap) {
	t.Helper()
	of := make(map[string]Gap, len(gaps))
	for _, gap := range gaps {
		require.NotEmpty(t, gap.Reason, "the gap %s has no reason", gap.Case)
		of[gap.Case] = gap
	}
	for name, test := range map[string]func(*testing.T, *suite){
		"RoundTrip":              testRoundTrip,
		"PutReplaces":            testPutReplaces,
		"PutStreams":             testPutStreams,
		"PutSizeMismatch":        testPutSizeMismatch,
		"PutBrokenBody":          testPutBrokenBody,
		"IfAbsent":               testIfAbsent,
		"IfAbsentRace":           testIfAbsentRace,
		"Absent":                 testAbsent,
		"InvalidKeys":            testInvalidKeys,
		"UnusualKeys":            testUnusualKeys,
		"GetBytesLimit":          testGetBytesLimit,
		"Copy":                   testCopy,
		"Delete":                 testDelete,
		"DeleteBatches":          testDeleteBatches,
		"Ranges":                 testRanges,
		"RangeErrors":            testRangeErrors,
		"ReaderAtZip":            testReaderAtZip,
		"ReaderAtReplaced":       testReaderAtReplaced,
		"ListPages":              testListPages,
		"ListPrefix":             testListPrefix,
		"ListOrder":              testListOrder,
		"PresignGet":             testPresignGet,
		"PresignFilename":        testPresignFilename,
		"PresignPut":             testPresignPut,
		"PresignTampered":        testPresignTampered,
		"PresignExpires":         testPresignExpires,
		"PresignArguments":       testPresignArguments,
		"Multipart":              testMultipart,
		"MultipartCompleteTwice": testMultipartCompleteTwice,
		"MultipartBadParts":      testMultipartBadParts,
		"MultipartAbort":         testMultipartAbort,
		"MultipartTampered":      testMultipartTampered,
		"MultipartUnknown":       testMultipartUnknown,
		"Large":                  testLarge,
		"Cancelled":              testCancelled,
		"Check":                  testCheck,
	} {
		if gap, known := of[name]; known {
			t.Logf("%s is left out: %s", name, gap.Reason)
			delete(of, name)
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, newSuite(t, newStore(t)))
		})
	}
	require.Empty(t, of, "gaps in cases that there are not")
}

// suite is one test's view: a store and a workspace that no other test uses.
type suite struct {
	store blob.Store
	org   string
}

func newSuite(t *testing.T, store blob.Store) *suite {
	s := &suite{store: store, org: "blobtest-" + ids.Token(9)}
	t.Cleanup(func() {
		ctx := context.Background() // the test's context is cancelled by now
		for after := ""; ; {
			objects, next, err := store.List(ctx, s.org+"/", after, 0)
			require.NoError(t, err)
			var keys []string
			for _, o := range objects {
				keys = append(keys, o.Key)
			}
			require.NoError(t, store.Delete(ctx, keys...))
			if after = next; after == "" {
				return
			}
		}
	})
	return s
}

// key returns a key in the test's workspace.
func (s *suite) key(path string) string { return s.org + "/" + path }

func (s *suite) put(t *testing.T, path, content string) blob.Object {
	t.Helper()
	obj, err := blob.PutBytes(t.Context(), s.store, s.key(path), []byte(content), blob.PutOptions{})
	require.NoError(t, err)
	return obj
}

func (s *suite) get(t *testing.T, path string) string {
	t.Helper()
	data, _, err := blob.GetBytes(t.Context(), s.store, s.key(path), 64<<20)
	require.NoError(t, err)
	return string(data)
}

// request sends a plain HTTP request and returns status, headers and body.
func request(t *testing.T, method, url string, body []byte) (int, http.Header, []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, bytes.NewReader(body))
	require.NoError(t, err)
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return res.StatusCode, res.Header, answer
}

// stream hides every method of a reader but Read.
type stream struct{ io.Reader }

func testCheck(t *testing.T, s *suite) {
	assert.NoError(t, s.store.Check(t.Context()))
}
