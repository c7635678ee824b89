package client_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"millrace/localstack/client"
)

func TestDetailIsMessageOfServer(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"detail":"no such run"}`: "no such run",
		`{"detail":[{"loc":["body","flow_spec","tasks",3,"name"],"msg":"is used twice"},{"loc":["query","limit"],"msg":"too many"}]}`: "body.flow_spec.tasks[3].name: is used twice\nquery.limit: too many",
		`<html>`:          "the server answered 502 Bad Gateway",
		`{"detail":""}`:   "the server answered 502 Bad Gateway",
		`{"detail":[]}`:   "the server answered 502 Bad Gateway",
		`{"error":"odd"}`: "the server answered 502 Bad Gateway",
	} {
		assert.Equal(t, want, (&client.Error{Status: 502, Body: body}).Detail(), body)
	}
}
