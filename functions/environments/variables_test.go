package environments_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/proof/localtest"
	"millrace/shared/run/runstate"
)

// state is an environment's variables: their values by key, those that are disabled
// in parentheses.
func (w *world) state(t *testing.T, environment string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, item := range w.do(t, "GET", "/environments/"+environment+"/variables", nil).Require(t, 200).Items(t) {
		v := item.(object)
		out[v["key"].(string)] = v["value"].(string)
		if v["enabled"] == false {
			out[v["key"].(string)] = "(" + v["value"].(string) + ")"
		}
	}
	return out
}

// seen are the variables that a new run sees.
func (w *world) seen(t *testing.T, environment string) map[string]string {
	t.Helper()
	run := w.do(t, "POST", "/runs", object{"flow_name": "etl", "flow_version": "1", "environment": environment}).Require(t, 200)
	input, err := runstate.LoadInput(t.Context(), w.Deps.Table, w.Deps.Blob, w.A.OrgID, run.String(t, "run_id"))
	require.NoError(t, err)
	return input.Vars
}

func TestVariableLifecycle(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"default", "prod"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := open(t, localtest.Options{})
			if name != "default" {
				w.create(t, name)
			}
			path := "/environments/" + name + "/variables"
			assert.Empty(t, w.seen(t, name))
			assert.Empty(t, w.state(t, name))
			w.Clock.Advance(time.Minute)
			n := w.AuditCount(t, w.A.OrgID)
			first := w.do(t, "PUT", path, object{"variables": object{"B": "2", "A": "", "C": "3"}}).Require(t, 200)
			assert.Equal(t, "A", first.String(t, "items", 0, "key"))
			assert.Equal(t, map[string]string{"A": "", "B": "2", "C": "3"}, w.seen(t, name))
			w.Clock.Advance(time.Minute)
			w.do(t, "PATCH", path, object{"variables": object{"A": nil, "NONE": nil, "B": "two", "D": "4"}}).Require(t, 200)
			assert.Equal(t, map[string]string{"B": "two", "C": "3", "D": "4"}, w.state(t, name))
			list := w.do(t, "GET", path, nil)
			assert.NotEqual(t, list.String(t, "items", 0, "updated_at"), list.String(t, "items", 1, "updated_at"), "C was not changed")

			w.Clock.Advance(time.Minute)
			off := w.do(t, "POST", path+"/B/toggle", nil).Require(t, 200)
			assert.Equal(t, []any{"B", "two", false}, []any{off.Get(t, "key"), off.Get(t, "value"), off.Get(t, "enabled")})
			assert.Equal(t, map[string]string{"C": "3", "D": "4"}, w.seen(t, name))
			w.do(t, "POST", path+"/B/toggle", object{"enabled": false}).Require(t, 200)
			w.Clock.Advance(time.Minute)
			w.do(t, "PUT", path, object{"variables": object{"B": "3"}}).Require(t, 200)
			assert.Equal(t, map[string]string{"B": "(3)"}, w.state(t, name), "what stays remains disabled")
			w.Clock.Advance(time.Minute)
			w.do(t, "POST", path+"/B/toggle", object{}).Require(t, 200)
			assert.Equal(t, map[string]string{"B": "3"}, w.seen(t, name))
			one := w.do(t, "GET", "/environments/"+name, nil)
			assert.Equal(t, "1", fmt.Sprint(one.Get(t, "variable_count")))

			w.Clock.Advance(time.Minute)
			assert.Equal(t, object{"status": "deleted", "key": "B"}, w.do(t, "DELETE", path+"/B", nil).Require(t, 200).Object(t))
			w.do(t, "DELETE", path+"/B", nil).Require(t, 404)
			w.do(t, "POST", path+"/B/toggle", nil).Require(t, 404)
			w.do(t, "PATCH", path, object{"variables": object{}}).Require(t, 200)
			var mine []string
			for _, r := range w.Audit(t, w.A.OrgID)[n:] {
				if r.ResourceType == "environment" && r.ResourceID == name {
					mine = append(mine, r.Action)
					assert.Contains(t, r.Metadata, `"variables"`)
				}
			}
			assert.Equal(t, []string{"update_variables", "update_variables", "toggle_variable", "update_variables", "toggle_variable", "delete_variable"}, mine)
		})
	}
}

func TestInvalidVariablesAreRejected(t *testing.T) {
	t.Parallel()
	w := open(t, localtest.Options{})
	w.create(t, "prod")
	many := object{}
	for i := range 201 {
		many[fmt.Sprint("K", i)] = ""
	}
	for name, variables := range map[string]any{
		"none": nil, "a number": object{"A": 1}, "a list": []string{"A"}, "a digit": object{"1A": ""}, "a hyphen": object{"A-B": ""}, "empty": object{"": ""},
		"a long key": object{strings.Repeat("k", 129): ""}, "a long value": object{"A": strings.Repeat("é", 2049)}, "many": many,
	} {
		for _, method := range []string{"PUT", "PATCH"} {
			assert.Equal(t, 422, w.do(t, method, "/environments/prod/variables", object{"variables": variables}).Code, "%s %s", method, name)
		}
	}
	w.do(t, "PUT", "/environments/prod/variables", object{"variables": object{"A": nil}}).Require(t, 422)
	w.do(t, "PUT", "/environments/prod/variables", object{"A": "1"}).Require(t, 422)
	w.do(t, "DELETE", "/environments/prod/variables/A-B", nil).Require(t, 422)
	assert.Empty(t, w.state(t, "prod"))
	delete(many, "K0")
	w.do(t, "PUT", "/environments/prod/variables", object{"variables": many}).Require(t, 200)
	w.do(t, "PATCH", "/environments/prod/variables", object{"variables": object{"K0": ""}}).Require(t, 422)
	w.do(t, "PATCH", "/environments/prod/variables", object{"variables": object{"K0": "", "K1": nil}}).Require(t, 200)
}

// TestLargeVariablesLiveInTheObjectStore: as many and as large as there may be, and
// no earlier state of them is kept.
func TestLargeVariablesLiveInTheObjectStore(t *testing.T) {
	t.Parallel()
	w := open(t, localtest.Options{})
	w.create(t, "prod")
	objects := func() int {
		all, _, err := w.Deps.Blob.List(t.Context(), w.A.OrgID+"/environments/", "", 0)
		require.NoError(t, err)
		return len(all)
	}
	all := object{}
	for i := range 200 {
		all[fmt.Sprint("K", i)] = strings.Repeat("v", 4096)
	}
	w.do(t, "PUT", "/environments/prod/variables", object{"variables": all}).Require(t, 200)
	assert.Equal(t, 1, objects())
	w.do(t, "PATCH", "/environments/prod/variables", object{"variables": object{"K7": "seven"}}).Require(t, 200)
	assert.Equal(t, 1, objects())
	seen := w.seen(t, "prod")
	assert.Len(t, seen, 200)
	assert.Equal(t, "seven", seen["K7"])
	w.do(t, "PUT", "/environments/prod/variables", object{"variables": object{"A": "1"}}).Require(t, 200)
	assert.Zero(t, objects())
	w.do(t, "PUT", "/environments/prod/variables", object{"variables": all}).Require(t, 200)
	for _, item := range w.do(t, "GET", "/runs?environment=prod", nil).Items(t) {
		w.do(t, "POST", "/runs/"+item.(object)["run_id"].(string)+"/cancel", nil).Require(t, 200)
	}
	w.do(t, "DELETE", "/environments/prod", nil).Require(t, 200)
	assert.Zero(t, objects())
}
