package admin_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/functions/admin"
	"millrace/localstack/proof/localtest"
	"millrace/shared/account/tenant"
	"millrace/shared/platform/blob"
	"millrace/shared/web/fn"
	"millrace/shared/web/httpapi"
)

type object = map[string]any

// failing has operations that fail.
type failing struct{}

type failIn struct {
	Token string `query:"token"`
	Body  struct {
		Secret string `json:"secret" secret:"true"`
	}
}

func (failing) panics(context.Context, *failIn) (httpapi.None, error) { panic("out of order") }

func (failing) fails(context.Context, *failIn) (httpapi.None, error) {
	return httpapi.None{}, errors.New("dial postgres://app:hunter2@db/x: refused")
}

var broken = fn.Spec{Name: "broken", Trigger: fn.Trigger{HTTP: true}, Routes: func(api *httpapi.API, _ fn.Deps) {
	g := httpapi.Group{API: api, Function: "broken", Reads: tenant.Public, Writes: tenant.Authenticated}
	httpapi.Post(g, "/broken/panics", failing{}.panics, "Panic")
	httpapi.Post(g, "/broken/fails", failing{}.fails, "Fail")
}}

// world is a service with its administrator. The object store is shared by the
// tests of the process, so each looks for its own traces only.
type world struct {
	*localtest.Env
	t    *testing.T
	root string
}

func open(t *testing.T) *world {
	t.Helper()
	env := localtest.New(t, admin.Spec, broken)
	w := &world{Env: env, t: t, root: env.SignIn(t, localtest.SuperAdmin)}
	return w
}

// fail makes a request fail, and returns its id.
func (w *world) fail(credential, path string) string {
	w.t.Helper()
	res := w.Send(w.t, localtest.Request{
		Credential: credential, Method: "POST", Path: "/broken/" + path + "?token=in-the-query", Body: object{"secret": "in-the-body"},
		Header: http.Header{"Cookie": {"session=in-the-cookie"}, "X-Kept": {"kept"}},
	}).Require(w.t, 500)
	return res.Header.Get("X-Request-Id")
}

// find returns the entry of a request in the list, whatever other tests stored.
func (w *world) find(request string) (entry object, found bool) {
	w.t.Helper()
	token := ""
	for range 100 {
		page := w.Do(w.t, w.root, "GET", "/admin/exceptions?limit=3&next_token="+token, nil).Require(w.t, 200)
		for _, item := range page.Items(w.t) {
			if item.(object)["request_id"] == request {
				return item.(object), true
			}
		}
		next, more := page.Object(w.t)["next_token"]
		if !more {
			return nil, false
		}
		token = next.(string)
	}
	require.Fail(w.t, "the list has no end")
	return nil, false
}

func query(key string) string { return "?key=" + url.QueryEscape(key) }

func TestOnlyPlatformAdministratorsHaveAccess(t *testing.T) {
	t.Parallel()
	w := open(t)
	id := w.fail(w.A.Key, "panics")
	entry, found := w.find(id)
	require.True(t, found)
	key := entry["key"].(string)
	before := w.AuditCount(t, w.A.OrgID)
	for name, c := range map[string]struct {
		credential string
		code       int
	}{
		"nobody": {"", 401}, "owner": {w.SignIn(t, w.A.Owner), 403}, "other owner": {w.SignIn(t, w.B.Owner), 403},
		"key with full access": {w.A.Key, 403}, "user without a workspace": {w.SignIn(t, "x@nowhere.test"), 403},
	} {
		for _, r := range []localtest.Request{
			{Method: "GET", Path: "/admin/exceptions"}, {Method: "GET", Path: "/admin/exceptions/content" + query(key)},
			{Method: "GET", Path: "/admin/exceptions/download" + query(key)}, {Method: "DELETE", Path: "/admin/exceptions", Body: object{"keys": []string{key}}},
		} {
			r.Credential = c.credential
			res := w.Send(t, r)
			require.Equal(t, c.code, res.Code, "%s: %s", name, res.Body)
			if c.code == 403 {
				assert.Equal(t, "Permission denied: requires 'super_admin'", res.String(t, "detail"))
			}
		}
	}
	_, found = w.find(id)
	assert.True(t, found)
	assert.Equal(t, before, w.AuditCount(t, w.A.OrgID))
}

func TestTraceIsListedReadAndDownloaded(t *testing.T) {
	t.Parallel()
	w := open(t)
	id := w.fail(w.A.Key, "panics")
	entry, found := w.find(id)
	require.True(t, found)
	assert.Equal(t, object{
		"key": entry["key"], "timestamp": entry["timestamp"], "request_id": id, "function_name": "broken", "exception_type": "string",
		"exception_message": "out of order", "http_method": "POST", "http_path": "/broken/panics", "org_id": w.A.OrgID,
	}, entry)
	key := entry["key"].(string)

	trace := w.Do(t, w.root, "GET", "/admin/exceptions/content"+query(key), nil).Require(t, 200)
	fields := trace.Object(t)
	for _, name := range []string{"timestamp", "request_id", "function_name", "exception_type", "exception_message", "traceback", "http_method", "http_path", "org_id", "event"} {
		assert.Contains(t, fields, name)
	}
	assert.Contains(t, trace.String(t, "traceback"), "admin_test.go", "the stack leads to the handler")
	assert.Equal(t, "kept", trace.String(t, "event", "headers", "X-Kept"))
	for _, secret := range []string{"in-the-query", "in-the-body", "in-the-cookie", w.A.Key} {
		assert.NotContains(t, string(trace.Body), secret)
	}

	link := w.Do(t, w.root, "GET", "/admin/exceptions/download"+query(key), nil).Require(t, 200)
	at, err := time.Parse(time.RFC3339, link.String(t, "expires_at"))
	require.NoError(t, err)
	assert.WithinDuration(t, w.Clock.Now().Add(15*time.Minute), at, time.Minute)
	presigned, err := url.Parse(link.String(t, "url"))
	require.NoError(t, err)
	assert.Equal(t, "900", presigned.Query().Get("X-Amz-Expires"))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, presigned.String(), nil)
	require.NoError(t, err)
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	data, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	assert.Equal(t, 200, res.StatusCode)
	var downloaded object
	require.NoError(t, json.Unmarshal(data, &downloaded))
	assert.Equal(t, id, downloaded["request_id"])
}

func TestErrorsAreTracedWithoutCredentials(t *testing.T) {
	t.Parallel()
	w := open(t)
	entry, found := w.find(w.fail(w.SignIn(t, "x@nowhere.test"), "fails"))
	require.True(t, found)
	assert.Empty(t, entry["org_id"])
	trace := w.Do(t, w.root, "GET", "/admin/exceptions/content"+query(entry["key"].(string)), nil).Require(t, 200)
	assert.NotContains(t, string(trace.Body), "hunter2")
	assert.Contains(t, trace.String(t, "exception_message"), "refused")
}

func TestDeletedTracesAreGoneAndAudited(t *testing.T) {
	t.Parallel()
	w := open(t)
	var keys []string
	for _, credential := range []string{w.A.Key, w.B.Key, w.A.Key} {
		entry, found := w.find(w.fail(credential, "fails"))
		require.True(t, found)
		keys = append(keys, entry["key"].(string))
	}
	w.Clock.Advance(time.Second) // entries of one millisecond are in no order
	a, b := w.AuditCount(t, w.A.OrgID), w.AuditCount(t, w.B.OrgID)
	res := w.Do(t, w.root, "DELETE", "/admin/exceptions", object{"keys": []string{keys[0], keys[1], keys[0]}}).Require(t, 200)
	assert.Equal(t, "deleted", res.String(t, "status"))
	assert.ElementsMatch(t, []any{keys[0], keys[1]}, res.Get(t, "keys"))
	for _, key := range keys[:2] {
		w.Do(t, w.root, "GET", "/admin/exceptions/content"+query(key), nil).Require(t, 404)
		w.Do(t, w.root, "GET", "/admin/exceptions/download"+query(key), nil).Require(t, 404)
	}
	w.Do(t, w.root, "GET", "/admin/exceptions/content"+query(keys[2]), nil).Require(t, 200)
	again := w.Do(t, w.root, "DELETE", "/admin/exceptions", object{"keys": keys[:2]}).Require(t, 200)
	assert.Empty(t, again.Get(t, "keys"))
	entries := w.Audit(t, w.A.OrgID)
	require.Len(t, entries, a+1)
	assert.Equal(t, "exception delete", entries[a].ResourceType+" "+entries[a].Action)
	assert.Equal(t, localtest.SuperAdmin, entries[a].ActorEmail)
	assert.Equal(t, b+1, w.AuditCount(t, w.B.OrgID))
}

func TestKeysOfOtherObjectsAreRejected(t *testing.T) {
	t.Parallel()
	w := open(t)
	artifact := w.A.OrgID + "/artifacts/a.zip"
	_, err := blob.PutBytes(t.Context(), w.Deps.Blob, artifact, []byte("{}"), blob.PutOptions{})
	require.NoError(t, err)
	for i, key := range []string{
		artifact, "x", httpapi.TracePrefix, httpapi.TraceKey(w.Clock.Now(), w.A.OrgID, "..") + "/x", "../" + artifact,
		httpapi.TracePrefix + "../../" + artifact, httpapi.TracePrefix + "8227399232991/../x.json\x01",
	} {
		name := fmt.Sprint(i, " ", key)
		for _, op := range []string{"content", "download"} {
			code := w.Do(t, w.root, "GET", "/admin/exceptions/"+op+query(key), nil).Code
			assert.Contains(t, []int{404, 422}, code, name)
		}
		w.Do(t, w.root, "DELETE", "/admin/exceptions", object{"keys": []string{key}}).Require(t, 422)
	}
	_, err = w.Deps.Blob.Head(t.Context(), artifact)
	require.NoError(t, err)
	for _, body := range []string{``, `{}`, `{"keys":[]}`, `{"keys":"x"}`, `{"keys":null}`, `{"keys":["x"],"more":1}`} {
		w.Do(t, w.root, "DELETE", "/admin/exceptions", body).Require(t, 422)
	}
	for _, query := range []string{"/content", "/content?key=", "?limit=0", "?limit=201", "/download"} {
		w.Do(t, w.root, "GET", "/admin/exceptions"+query, nil).Require(t, 422)
	}
	w.Do(t, w.root, "GET", "/admin/exceptions?next_token=x", nil).Require(t, 400)
	w.Do(t, w.root, "DELETE", "/admin/exceptions", object{"keys": []string{httpapi.TraceKey(w.Clock.Now(), w.A.OrgID, "absent")}}).Require(t, 200)
	w.Do(t, w.root, "GET", "/admin/exceptions/content"+query(httpapi.TraceKey(w.Clock.Now(), w.A.OrgID, "absent")), nil).Require(t, 404)
}
