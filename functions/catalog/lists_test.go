package catalog_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/functions/catalog"
	"millrace/localstack/proof/localtest"
)

// TestListsGoOnToTheirEnd reads each list in pages of two: together they are the
// whole list, in its order, and a token goes on only with the list that it is of.
func TestListsGoOnToTheirEnd(t *testing.T) {
	t.Parallel()
	env := localtest.New(t, catalog.All()...)
	make5 := func(path string, code int, body func(i int) object) {
		for i := range 5 {
			env.Do(t, env.A.Key, "POST", path, body(i)).Require(t, code)
		}
	}
	spec := object{"tasks": []object{{"name": "a", "type": "wait", "config": object{"seconds": 1}}}}
	make5("/flows", 200, func(i int) object {
		return object{"flow_name": fmt.Sprint("f", i), "flow_version": "1", "flow_spec": spec}
	})
	make5("/deployments", 200, func(i int) object {
		return object{"deployment_name": fmt.Sprint("d", i), "flow_name": fmt.Sprint("f", i), "flow_version": "1", "environment": "prod"}
	})
	env.Do(t, env.A.Key, "POST", "/deployments", object{"deployment_name": "d2a", "flow_name": "f1", "flow_version": "1"}).Require(t, 200)
	make5("/secrets", 201, func(i int) object { return object{"name": fmt.Sprint("S", i), "value": "v", "environment": "prod"} })
	env.Do(t, env.A.Key, "POST", "/secrets", object{"name": "S2", "value": "v"}).Require(t, 201)
	make5("/schedules", 200, func(i int) object {
		return object{"schedule_id": fmt.Sprint("s", i), "flow_name": "f1", "flow_version": "1", "mode": "interval", "interval_seconds": 3600}
	})
	env.Do(t, env.A.Key, "POST", "/schedules", object{"schedule_id": "s2a", "deployment": "d2", "mode": "cron", "cron_expression": "@daily"}).Require(t, 200)
	make5("/sensors", 201, func(i int) object {
		return object{"name": fmt.Sprint("n", i), "sensor_type": "webhook", "flow_name": "f1"}
	})
	make5("/channels", 201, func(i int) object {
		return object{"name": fmt.Sprint("n", i), "channel_type": "email", "config_json": `{"to": ["ann@a.test"]}`}
	})
	make5("/alert-rules", 201, func(i int) object { return object{"name": fmt.Sprint("n", i), "trigger": "on_failure"} })
	make5("/flows/f3/backfill", 200, func(i int) object {
		return object{"from": "2026-01-01", "to": "2026-01-02", "interval_seconds": 86400, "max_concurrency": 1 + i}
	})
	for query, n := range map[string]int{
		"/flows?": 5, "/flows?environment=prod&": 5, "/deployments?": 6, "/deployments?environment=prod&": 5,
		"/secrets?": 6, "/secrets?environment=prod&": 5, "/schedules?": 6, "/schedules?mode=interval&": 5, "/schedules?flow_name=f1&enabled=true&": 5,
		"/sensors?": 5, "/channels?": 5, "/notifications/channels?": 5, "/alert-rules?": 5, "/backfills?": 5,
	} {
		whole := env.Do(t, env.A.Key, "GET", query+"limit=100", nil).Require(t, 200)
		assert.Len(t, whole.Items(t), n, query)
		assert.NotContains(t, whole.Object(t), "next_token", query)

		var all []any
		for at, pages := "", 0; pages == 0 || at != ""; pages++ {
			page := env.Do(t, env.A.Key, "GET", query+"limit=2"+at, nil).Require(t, 200)
			assert.LessOrEqual(t, len(page.Items(t)), 2, query)
			all = append(all, page.Items(t)...)
			token, more := page.Object(t)["next_token"].(string)
			if at = ""; more {
				at = "&next_token=" + url.QueryEscape(token)
				env.Do(t, env.B.Key, "GET", query+"limit=2"+at, nil).Require(t, 400)
				env.Do(t, env.A.Key, "GET", query+"limit=2"+at+"x", nil).Require(t, 400)
				env.Do(t, env.A.Key, "GET", "/audit-logs?limit=2"+at, nil).Require(t, 400)
			}
			if !assert.LessOrEqual(t, pages, n, query) {
				break
			}
		}
		assert.Equal(t, whole.Items(t), all, query)
	}
}

// TestListsDocumentWrongTokens: a next_token of another list is 400.
func TestListsDocumentWrongTokens(t *testing.T) {
	t.Parallel()
	env := localtest.New(t, catalog.All()...)
	var doc struct {
		Paths map[string]map[string]struct {
			Parameters []struct{ Name string }
			Responses  map[string]any
		}
	}
	require.NoError(t, json.Unmarshal(env.Do(t, "", "GET", "/openapi.json", nil).Require(t, 200).Body, &doc))
	lists := 0
	for path, operations := range doc.Paths {
		for method, op := range operations {
			for _, p := range op.Parameters {
				if p.Name == "next_token" {
					lists++
					assert.Contains(t, op.Responses, "400", "%s %s", method, path)
				}
			}
		}
	}
	assert.Greater(t, lists, 10)
}
