package httpapi

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestCredentialsAreRemovedFromTraces(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"get s3://bucket/key: no such key":                                 "get s3://bucket/key: no such key",
		"the key svc_0123456789abcdefABCDEF is unknown":                    "the key *** is unknown",
		"POST /webhooks/whk_aLzk6AE311_DkFguBrLOKZ2M-QgRzRLY failed":       "POST /webhooks/*** failed",
		"token eyJhbGciOiJub25lIn0.e30. of nobody":                         "token *** of nobody",
		`header "Authorization: Bearer abc.def" refused`:                   `header "Authorization: ***" refused`,
		"dial postgres://app:hunter2@db:5432/x: refused":                   "dial postgres***db:5432/x: refused",
		`connect: password=hunter2 user=app`:                               `connect: *** user=app`,
		`body {"db_password": "hun ter2", "n": 1}`:                         `body {"*** "n": 1}`,
		"GET https://s3/x?X-Amz-Signature=deadbeef&X-Amz-Date=2026: 403":   "GET https://s3/x?***&X-Amz-Date=2026: 403",
		"X-Amz-Security-Token=abc%2F%2F&x=1":                               "***&x=1",
		"goroutine 7 [running]:\nmillrace/functions/runs.(*service).get()": "goroutine 7 [running]:\nmillrace/functions/runs.(*service).get()",
	} {
		assert.NotContains(t, withoutCredentials(text), "hunter2")
		if text == `body {"db_password": "hun ter2", "n": 1}` {
			assert.NotContains(t, withoutCredentials(text), "hun ter2")
			continue
		}
		assert.Equal(t, want, withoutCredentials(text))
	}
}

func TestTraceKeysSortNewestFirst(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	keys := []string{
		TraceKey(at.Add(time.Hour), "org_1", "a"), TraceKey(at.Add(time.Millisecond), "", "b"), TracesBefore(at), TraceKey(at, "org_2", "c"), TraceKey(time.Time{}, "", "d"),
	}
	assert.True(t, slices.IsSorted(keys), "%v", keys)
	for _, c := range []struct{ org, id string }{{"org_1", "01ABC"}, {"", "01ABC"}} {
		org, id, ok := ParseTraceKey(TraceKey(at, c.org, c.id))
		assert.True(t, ok)
		assert.Equal(t, c, struct{ org, id string }{org, id})
	}
	for _, key := range []string{
		"", "org_1/artifacts/a.zip", TracePrefix, TracesBefore(at), TracesBefore(at) + "/org_1/x", TracesBefore(at) + "/org_1/.json",
		TracesBefore(at) + "/org_1/x/y.json", TracePrefix + "1/org_1/x.json", "x" + TraceKey(at, "o", "r"),
	} {
		_, _, ok := ParseTraceKey(key)
		assert.False(t, ok, key)
	}
}
