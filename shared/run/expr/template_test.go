package expr_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/run/expr"
)

func secret(name string) (string, error) {
	if name == "gone" {
		return "", errors.New("no such secret")
	}
	return "s3cr3t-" + name, nil
}

func TestTemplateRender(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		`null`:               `null`,
		`{"a":[1,true,"x"]}`: `{"a":[1,true,"x"]}`,
		`"${{ params.n }}"`:  `3`,
		`"${{params.n}}"`:    `3`,
		`" ${{ params.n }}"`: `" 3"`,
		`"n=${{ params.n }} r=${{ params.ratio }}"`:            `"n=3 r=0.5"`,
		`"${{ params.day }}/${{ run.flow_name }}"`:             `"2026-01-02/nightly"`,
		`"${{ [1, {'a': {'b': null}}] }}!"`:                    `"[1,{\"a\":{\"b\":null}}]!"`,
		`"${{ {'a': {'b': 1}} }}"`:                             `{"a":{"b":1}}`,
		`"${{ '}}' + \"}}\" }}"`:                               `"}}}}"`,
		`"${{ r'\\' + '}}' }}"`:                                `"\\}}"`,
		`"${{ 'it\\'s }}' }}"`:                                 `"it's }}"`,
		`"${{ '''a'}}''' }}"`:                                  `"a'}}"`,
		`"$${{ params.n }}"`:                                   `"${{ params.n }}"`,
		`["$${{ x", "${{ params.n }}"]`:                        `["${{ x",3]`,
		`"$$${{ params.n }}"`:                                  `"$${{ params.n }}"`,
		`"a }} b"`:                                             `"a }} b"`,
		`"$ {{ params.n }}"`:                                   `"$ {{ params.n }}"`,
		`{"${{ params.n }}":1}`:                                `{"${{ params.n }}":1}`,
		`{"Authorization":"Bearer ${{ secrets.token }}"}`:      `{"Authorization":"Bearer s3cr3t-token"}`,
		`"${{ secrets['my-token'] }}"`:                         `"s3cr3t-my-token"`,
		`{"big":12345678901234567890,"b":"${{ params.big }}"}`: `{"b":12345678901234567890,"big":12345678901234567890}`,
		`{"rows":"${{ tasks.extract.output.map(r, r.id) }}"}`:  `{"rows":[1,2,3]}`,
		`"é${{ params.day }}ü"`:                                `"é2026-01-02ü"`,
	} {
		t.Run(raw, func(t *testing.T) {
			t.Parallel()
			tpl, err := expr.CompileTemplate(json.RawMessage(raw))
			require.NoError(t, err)
			v, err := tpl.Render(t.Context(), scope(t), secret)
			require.NoError(t, err)
			got, err := expr.Encode(v)
			require.NoError(t, err)
			assert.Equal(t, want, string(got))
		})
	}
}

func TestTemplateFaultsAreAllReported(t *testing.T) {
	t.Parallel()
	_, err := expr.CompileTemplate(json.RawMessage(
		`{"b":["ok","${{ nope }}"],"a":"${{ 1 + }} and ${{ tasks.x }}","c":"${{ open"}`))
	require.Error(t, err)
	faults := expr.TemplateErrors(err)
	require.Len(t, faults, 4)
	assert.Equal(t, []any{"a"}, faults[0].Path)
	assert.Equal(t, []any{"a"}, faults[1].Path)
	assert.Equal(t, []any{"b", 1}, faults[2].Path)
	assert.Equal(t, "column 1: undeclared reference to 'nope'", faults[2].Error())
	assert.Equal(t, []any{"c"}, faults[3].Path)
	assert.ErrorContains(t, faults[3], "not closed by }}")

	_, err = expr.CompileTemplate(json.RawMessage(`{`))
	assert.Len(t, expr.TemplateErrors(err), 1)
}

func TestTemplateReferences(t *testing.T) {
	t.Parallel()
	tpl, err := expr.CompileTemplate(json.RawMessage(
		`{"a":["${{ tasks.x.output }}"],"b":"${{ tasks['y-z'].status }} ${{ secrets.s2 }}${{ secrets.s1 + secrets.s2 }}"}`))
	require.NoError(t, err)
	assert.Equal(t, []expr.Ref{{Path: []any{"a", 0}, Task: "x"}, {Path: []any{"b"}, Task: "y-z"}}, tpl.Refs())
	assert.Equal(t, []string{"x", "y-z"}, tpl.Tasks())
	assert.Equal(t, []string{"s1", "s2"}, tpl.Secrets())
	assert.False(t, tpl.Constant())
}

func TestTemplateRenderErrors(t *testing.T) {
	t.Parallel()
	tpl, err := expr.CompileTemplate(json.RawMessage(`"${{ secrets.gone }}"`))
	require.NoError(t, err)
	_, err = tpl.Render(t.Context(), scope(t), secret)
	assert.EqualError(t, err, "secret gone: no such secret")
	_, err = tpl.Render(t.Context(), scope(t), nil)
	assert.ErrorContains(t, err, "not available")

	tpl, err = expr.CompileTemplate(json.RawMessage(`"x ${{ 0.0 / 0.0 }}"`))
	require.NoError(t, err)
	_, err = tpl.Render(t.Context(), scope(t), nil)
	assert.ErrorContains(t, err, "cannot be written as JSON")
}

func FuzzCompileTemplate(f *testing.F) {
	for _, seed := range []string{
		`"${{ params.n }}"`, `{"a":"$${{ x ${{ tasks.x.output }} ${{"}`, `"${{ '}}' }}"`,
		`"${{ secrets.a + r'\\' }}"`, `["${{ {1: {2: 3}} }}"]`, `"${{ [1].map(x, x) }}"`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		tpl, err := expr.CompileTemplate(raw)
		if err != nil {
			if len(expr.TemplateErrors(err)) == 0 {
				t.Fatalf("an error without a fault: %v", err)
			}
			return
		}
		v, err := tpl.Render(t.Context(), expr.Scope{}, func(name string) (string, error) { return name, nil })
		if err != nil {
			return
		}
		// NaN is the one value that has no JSON.
		if encoded, err := expr.Encode(v); err == nil {
			if _, err := expr.Decode(encoded); err != nil {
				t.Fatalf("%s does not decode: %v", encoded, err)
			}
		}
	})
}
