package httpapi_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/account/tenant"
	"millrace/shared/web/httpapi"
)

type tagged struct {
	Name  string    `json:"name" minLength:"1" example:"tea"`
	Kind  string    `json:"kind" enum:"green,black"`
	Grams *int      `json:"grams,omitempty" example:"250"`
	Note  string    `json:"note,omitempty"`
	Mixed []blended `json:"mixed"`
}

type blended struct {
	Part float64 `json:"part" minimum:"0" example:"0.5"`
}

type untagged struct {
	Name string `json:"name"`
}

// example returns a body's example in the description.
func example[B any](t *testing.T, opts ...httpapi.Option) string {
	t.Helper()
	a := httpapi.New(httpapi.Config{})
	g := httpapi.Group{API: a, Function: "things", Writes: tenant.Public}
	httpapi.Post(g, "/things", func(context.Context, *struct{ Body B }) (httpapi.None, error) { return httpapi.None{}, nil },
		"Make a thing", append(opts, httpapi.ID("make"))...)
	data, err := json.Marshal(a.OpenAPI().Paths["/things"].Post.RequestBody.Content["application/json"].Example)
	require.NoError(t, err)
	return string(data)
}

func TestExamplesOfBodies(t *testing.T) {
	t.Parallel()
	assert.JSONEq(t, `{"name": "tea", "kind": "green", "grams": 250, "mixed": [{"part": 0.5}]}`, example[tagged](t))
	assert.JSONEq(t, `{"name": "x"}`, example[untagged](t, httpapi.Example(`{"name": "x"}`)))
	assert.Equal(t, "null", example[untagged](t), "a required field without an example")
	assert.Equal(t, "null", example[struct{}](t), "nothing to show")
}

func TestInvalidExamplePanics(t *testing.T) {
	t.Parallel()
	for want, register := range map[string]func(){
		"Field required": func() { example[tagged](t, httpapi.Example(`{"kind": "green"}`)) },
		"unexpected EOF": func() { example[untagged](t, httpapi.Example(`{"name": `)) },
		"greater than": func() {
			example[struct {
				N int `json:"n" minimum:"2" example:"1"`
			}](t)
		},
	} {
		func() {
			defer func() {
				assert.Contains(t, recover(), "operation make would refuse its example", want)
			}()
			register()
			assert.Fail(t, "no panic", want)
		}()
	}
}
