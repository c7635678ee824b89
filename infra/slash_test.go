package main

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/aws/aws-lambda-go/events"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/functions/catalog"
	"millrace/shared/web/fn"
	"millrace/shared/web/gateway"
	"millrace/shared/web/httpapi"
)

// matched returns the resource that API Gateway finds for a path: segment by
// segment, the most specific one first, and {proxy+} for the rest. Resources
// have no empty segments, so a path with a trailing slash matches {proxy+}.
func matched(paths object, path string) string {
	best, rank := "", ""
	for resource := range paths {
		if r, ok := fits(resource, path); ok && r > rank {
			best, rank = resource, r
		}
	}
	return best
}

// fits ranks how specific a match is: s for a literal segment, p for a
// variable, g for the greedy one.
func fits(resource, path string) (rank string, ok bool) {
	want, got := strings.Split(resource, "/")[1:], strings.Split(path, "/")[1:]
	for i, segment := range want {
		switch {
		case strings.HasSuffix(segment, "+}"):
			return rank + "g", len(got) > i
		case i >= len(got):
			return "", false
		case strings.HasPrefix(segment, "{"):
			if got[i] == "" {
				return "", false
			}
			rank += "p"
		case segment != got[i]:
			return "", false
		default:
			rank += "s"
		}
	}
	return rank, len(want) == len(got)
}

// unmatched returns the deployed function of unmatched requests.
func unmatched(t *testing.T) *gateway.Function {
	t.Helper()
	spec, found := catalog.Unmatched(catalog.All())
	require.True(t, found)
	return gateway.New(spec, httpapi.Config{
		Log: slog.New(slog.DiscardHandler),
		Whole: func() *httpapi.API {
			return catalog.API(catalog.Routed(catalog.All()), httpapi.Config{Title: "Millrace"})
		},
	}, fn.Deps{}, nil)
}

func ask(t *testing.T, f *gateway.Function, method, path string, query map[string][]string) (status int, header http.Header, body string) {
	t.Helper()
	res, err := f.Stream(t.Context(), events.APIGatewayProxyRequest{
		HTTPMethod: method, Path: path, Resource: anyPath, MultiValueQueryStringParameters: query,
		RequestContext: events.APIGatewayProxyRequestContext{Stage: stageName},
	})
	require.NoError(t, err)
	data, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.NoError(t, res.Body.(io.Closer).Close())
	return res.StatusCode, res.MultiValueHeaders, string(data)
}

// TestPathWithTrailingSlashReachesItsOperation sends each operation's path with
// a trailing slash through API Gateway, with and without the stage.
func TestPathWithTrailingSlashReachesItsOperation(t *testing.T) {
	t.Parallel()
	paths, f := deployed(t).paths(t), unmatched(t)
	variable := strings.NewReplacer("{page}", "limits", "{", "", "}", "-1") // the page must exist
	for _, op := range catalog.Operations(catalog.Routed(catalog.All())) {
		if op.Path == "/" {
			continue
		}
		path := variable.Replace(op.Path) + "/"
		require.Equal(t, anyPath, matched(paths, path), "%s reaches another resource", path)
		status, header, body := ask(t, f, op.Method, path, map[string][]string{"limit": {"5"}, "q": {"a b"}})
		require.Equal(t, http.StatusPermanentRedirect, status, "%s %s: %s", op.Method, path, body)
		for _, before := range []string{"", "/" + stageName} {
			at, err := url.Parse("https://api.test" + before + path)
			require.NoError(t, err)
			to, err := at.Parse(header.Get("Location"))
			require.NoError(t, err)
			assert.Equal(t, "api.test", to.Host)
			assert.Equal(t, url.Values{"limit": {"5"}, "q": {"a b"}}, to.Query())
			reached := matched(paths, strings.TrimPrefix(to.Path, before))
			assert.Equal(t, op.Path, reached)
			assert.Contains(t, paths[reached], strings.ToLower(op.Method))
		}
	}
}

func TestUnmatchedRequestIsAnsweredInServiceShape(t *testing.T) {
	t.Parallel()
	f := unmatched(t)
	for _, c := range []struct {
		method, path string
		status       int
		allow        []string
	}{
		{"GET", "/nothing", 404, nil},
		{"GET", "/nothing/", 404, nil},
		{"GET", "//evil.test/", 404, nil},
		{"GET", "/runs//", 404, nil},
		{"DELETE", "/runs", 405, []string{"GET", "POST"}},
		{"DELETE", "/runs/", 405, []string{"GET", "POST"}},
		{"OPTIONS", "/runs/x/cancel", 405, []string{"POST"}},
		{"POST", "/docs", 405, []string{"GET"}},
		{"POST", "/", 405, []string{"GET"}},
		{"GET", "/runs", 404, nil}, // served by another function: the gateway never sends it here
	} {
		status, header, body := ask(t, f, c.method, c.path, nil)
		assert.Equal(t, c.status, status, "%s %s: %s", c.method, c.path, body)
		assert.Equal(t, c.allow, header.Values("Allow"), "%s %s", c.method, c.path)
		assert.Empty(t, header.Get("Location"), "%s %s", c.method, c.path)
		var shape map[string]string
		require.NoError(t, json.Unmarshal([]byte(body), &shape))
		assert.Equal(t, map[int]string{404: "Not Found", 405: "Method Not Allowed"}[c.status], shape["detail"])
	}
}
