package httpapi_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/platform/errs"
	"millrace/shared/web/httpapi"
)

func TestFields(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]map[string]json.RawMessage{
		"": nil, " \n": nil, "null": nil, "[]": nil, `"a"`: nil, "1": nil, "a=b": nil, "{": nil, "{}x": nil, `{"a": 1} {}`: nil, `{a: 1}`: nil, "{\"a\": \"\xff\"}": nil,
		"{}":                                  {},
		" {\"a\": 1, \"b\": {\"c\": null}}\n": {"a": json.RawMessage("1"), "b": json.RawMessage(`{"c": null}`)},
		`{"n": 12345678901234567890123}`:      {"n": json.RawMessage("12345678901234567890123")},
	} {
		got, err := httpapi.Fields([]byte(body))
		require.NoError(t, err, body)
		assert.Equal(t, want, got, body)
	}
	for body, part := range map[string]string{
		`{"a": 1, "a": 2}`:        `duplicate key "a"`,
		`{"a": {"b": 1, "b": 2}}`: `duplicate key "b"`,
		`{"a": 1e999}`:            "out of range",
		`{"a": ` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`: "nested deeper than 100",
	} {
		_, err := httpapi.Fields([]byte(body))
		require.Equal(t, errs.Unprocessable, errs.CodeOf(err), body)
		assert.Contains(t, errs.Text(err), part)
	}
}

// FuzzFields: what is returned are the fields of the body as encoding/json reads
// them.
func FuzzFields(f *testing.F) {
	for _, seed := range []string{"", "{}", `{"a": [1, {"b": null}]}`, `{"a": 1, "a": 2}`, "[", `{"\u0061": 1}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		got, err := httpapi.Fields(body)
		if err != nil {
			assert.Equal(t, errs.Unprocessable, errs.CodeOf(err))
			return
		}
		var want map[string]json.RawMessage
		if got != nil {
			require.NoError(t, json.Unmarshal(body, &want))
			assert.Equal(t, want, got)
		}
	})
}
