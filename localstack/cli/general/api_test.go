package general

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/cli/command"
)

func TestRequestOfAnyOperation(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		o                          calling
		method, path, target, body string
	}{
		"plain":     {calling{}, "GET", "/runs", "/runs", ""},
		"no slash":  {calling{}, "GET", "runs?limit=1", "/runs?limit=1", ""},
		"query":     {calling{fields: []string{"limit=3", "flow_name=a b"}}, "GET", "/runs", "/runs?flow_name=a+b&limit=3", ""},
		"body":      {calling{fields: []string{"n=3", "t=text", `s="3"`, "o={\"a\": null}", "eq=a=b"}}, "POST", "/runs", "/runs", `{"n":3,"t":"text","s":"3","o":{"a":null},"eq":"a=b"}`},
		"input":     {calling{input: "-"}, "PUT", "/x", "/x", `{"from":"stdin"}`},
		"no fields": {calling{}, "POST", "/runs/1/cancel", "/runs/1/cancel", ""},
	} {
		target, body, err := c.o.request(c.method, c.path, strings.NewReader(`{"from":"stdin"}`))
		require.NoError(t, err, name)
		assert.Equal(t, c.target, target.String(), name)
		if c.body == "" {
			assert.Nil(t, body, name)
			continue
		}
		assert.JSONEq(t, c.body, string(body), name)
	}
	for name, c := range map[string]calling{"no value": {fields: []string{"k"}}, "two bodies": {input: "-", fields: []string{"k=v"}}} {
		_, _, err := c.request("POST", "/runs", strings.NewReader(""))
		assert.Equal(t, command.WrongUsage, command.Code(err), name)
	}
	_, _, err := (&calling{}).request("GET", "//elsewhere/runs", strings.NewReader(""))
	assert.Equal(t, command.WrongUsage, command.Code(err), "the credential goes to the server alone")
}
