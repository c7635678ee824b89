package notifications_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/functions/notifications"
	"millrace/localstack/proof/localtest"
	"millrace/shared/account/tenant"
	"millrace/shared/kit/record"
	"millrace/shared/platform/table"
	"millrace/shared/run/alert"
	"millrace/shared/web/fn"
)

func TestRuleLifecycle(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"/alert-rules", "/notifications/rules"} {
		env := localtest.New(t, notifications.Spec)
		env.Clock.Advance(time.Minute) // entries of one millisecond are not ordered
		channel := create(t, env, "chat", configs["chat"][0])
		before := env.AuditCount(t, env.A.OrgID)
		env.Clock.Advance(time.Minute)
		made := env.Do(t, env.A.Key, "POST", at, object{
			"name": "Slow", "trigger": "on_sla_breach", "flow_name": "etl", "channel_ids": []string{channel}, "sla_seconds": 3600,
		}).Require(t, 201)
		id := made.String(t, "rule_id")
		assert.Equal(t, object{
			"org_id": env.A.OrgID, "rule_id": id, "name": "Slow", "trigger": "on_sla_breach", "flow_name": "etl", "channel_ids": []any{channel},
			"sla_seconds": json.Number("3600"), "enabled": true, "created_at": made.String(t, "created_at"), "created_by": made.String(t, "created_by"),
		}, made.Object(t))
		assert.JSONEq(t, string(made.Body), string(env.Do(t, env.A.Key, "GET", "/alert-rules/"+id, nil).Require(t, 200).Body))
		assert.JSONEq(t, `{"items": [`+string(made.Body)+`]}`, string(env.Do(t, env.A.Key, "GET", "/alert-rules", nil).Require(t, 200).Body))
		assert.Empty(t, env.Do(t, env.B.Key, "GET", "/alert-rules", nil).Require(t, 200).Items(t), "another workspace's")
		env.Do(t, env.B.Key, "GET", "/alert-rules/"+id, nil).Require(t, 404)
		env.Do(t, env.B.Key, "DELETE", "/alert-rules/"+id, nil).Require(t, 404)
		env.Do(t, env.B.Key, "POST", "/alert-rules/"+id+"/test", nil).Require(t, 404)

		env.Clock.Advance(time.Minute)
		gone := env.Do(t, env.A.Key, "DELETE", "/alert-rules/"+id, nil).Require(t, 200)
		assert.Equal(t, object{"status": "deleted", "rule_id": id}, gone.Object(t))
		env.Do(t, env.A.Key, "GET", "/alert-rules/"+id, nil).Require(t, 404)
		env.Do(t, env.A.Key, "DELETE", "/alert-rules/"+id, nil).Require(t, 404)
		env.Do(t, env.A.Key, "POST", "/alert-rules/"+id+"/test", nil).Require(t, 404)
		var actions []string
		for _, entry := range env.Audit(t, env.A.OrgID)[before:] {
			actions = append(actions, entry.ResourceType+" "+entry.Action)
			assert.Equal(t, id, entry.ResourceID)
		}
		assert.Equal(t, []string{"alert_rule create", "alert_rule delete"}, actions)

		plain := env.Do(t, env.A.Key, "POST", at, object{"name": "All", "trigger": "on_retry", "flow_name": nil, "channel_ids": []string{}, "sla_seconds": nil})
		for _, field := range []string{"flow_name", "channel_ids", "sla_seconds"} {
			assert.Nil(t, plain.Require(t, 201).Get(t, field), field)
		}
	}
}

func TestWrongRuleIsRefused(t *testing.T) {
	t.Parallel()
	env := localtest.New(t, notifications.Spec)
	channel := create(t, env, "chat", configs["chat"][0])
	foreign := env.Do(t, env.B.Key, "POST", "/channels", object{"channel_type": "chat", "name": "c", "config_json": configs["chat"][0]}).
		Require(t, 201).String(t, "channel_id")
	many := make([]string, 51)
	for i := range many {
		many[i] = fmt.Sprint("chn_", i)
	}
	for _, test := range []struct {
		change object
		loc    []any // below body
	}{
		{object{"name": ""}, []any{"name"}},
		{object{"name": nil}, []any{"name"}},
		{object{"name": " "}, []any{"name"}},
		{object{"name": "a\r\nb"}, []any{"name"}},
		{object{"name": strings.Repeat("x", 257)}, []any{"name"}},
		{object{"trigger": "on_fire"}, []any{"trigger"}},
		{object{"trigger": nil}, []any{"trigger"}},
		{object{"flow_name": "no flow"}, []any{"flow_name"}},
		{object{"flow_name": ""}, []any{"flow_name"}},
		{object{"channel_ids": "chn_1"}, []any{"channel_ids"}},
		{object{"channel_ids": []string{channel, "chn_none"}}, []any{"channel_ids", json.Number("1")}},
		{object{"channel_ids": []string{foreign}}, []any{"channel_ids", json.Number("0")}},
		{object{"channel_ids": []string{""}}, []any{"channel_ids", json.Number("0")}},
		{object{"channel_ids": []string{channel, channel}}, []any{"channel_ids", json.Number("1")}},
		{object{"channel_ids": many}, []any{"channel_ids"}},
		{object{"trigger": "on_sla_breach"}, []any{"sla_seconds"}},
		{object{"sla_seconds": 60}, []any{"sla_seconds"}},
		{object{"trigger": "on_sla_breach", "sla_seconds": 0}, []any{"sla_seconds"}},
		{object{"trigger": "on_sla_breach", "sla_seconds": -5}, []any{"sla_seconds"}},
		{object{"trigger": "on_sla_breach", "sla_seconds": 1.5}, []any{"sla_seconds"}},
		{object{"enabled": true}, []any{"enabled"}},
	} {
		body := object{"name": "r", "trigger": "on_failure"}
		for field, value := range test.change {
			body[field] = value
		}
		res := env.Do(t, env.A.Key, "POST", "/alert-rules", body)
		if assert.Equal(t, 422, res.Code, "%v: %s", test.change, res.Body) {
			assert.Equal(t, append([]any{"body"}, test.loc...), res.Get(t, "detail", 0, "loc"), "%v: %s", test.change, res.Body)
		}
	}
	assert.Empty(t, env.Do(t, env.A.Key, "GET", "/alert-rules", nil).Require(t, 200).Items(t))
}

func TestListsAndLimits(t *testing.T) {
	t.Parallel()
	env := localtest.Open(t, localtest.Options{Limits: []string{"channels=3", "alert-rules=101"}}, notifications.Spec)
	for range 3 {
		create(t, env, "chat", configs["chat"][0])
		env.Clock.Advance(time.Millisecond)
	}
	full := env.Do(t, env.A.Key, "POST", "/channels", object{"channel_type": "chat", "name": "c", "config_json": configs["chat"][0]}).Require(t, 429)
	assert.NotEmpty(t, full.Header.Get("Retry-After"))
	for range 101 {
		env.Do(t, env.A.Key, "POST", "/alert-rules", object{"name": "r", "trigger": "on_failure"}).Require(t, 201)
	}
	env.Do(t, env.A.Key, "POST", "/alert-rules", object{"name": "r", "trigger": "on_failure"}).Require(t, 429)
	assert.Len(t, env.Do(t, env.A.Key, "GET", "/alert-rules", nil).Require(t, 200).Items(t), 100)
	assert.Len(t, env.Do(t, env.A.Key, "GET", "/alert-rules?limit=200", nil).Require(t, 200).Items(t), 101)
	assert.Len(t, env.Do(t, env.A.Key, "GET", "/channels?limit=2", nil).Require(t, 200).Items(t), 2)
	for _, limit := range []string{"0", "-1", "1001", "x"} {
		env.Do(t, env.A.Key, "GET", "/alert-rules?limit="+limit, nil).Require(t, 422)
		env.Do(t, env.A.Key, "GET", "/channels?limit="+limit, nil).Require(t, 422)
	}
}

// TestRulesForAnEvent finds the rules that an event is delivered by, as the
// function that delivers it does.
func TestRulesForAnEvent(t *testing.T) {
	t.Parallel()
	env := localtest.New(t, notifications.Spec)
	rule := func(name, trigger string, flow any) {
		body := object{"name": name, "trigger": trigger, "flow_name": flow}
		if trigger == "on_sla_breach" {
			body["sla_seconds"] = 60
		}
		env.Do(t, env.A.Key, "POST", "/alert-rules", body).Require(t, 201)
		env.Clock.Advance(time.Millisecond)
	}
	for _, trigger := range []string{"on_failure", "on_success", "on_sla_breach", "on_retry"} {
		rule(trigger+" of all", trigger, nil)
		rule(trigger+" of etl", trigger, "etl")
		rule(trigger+" of etl2", trigger, "etl2")
	}
	ctx := tenant.With(t.Context(), tenant.Principal{OrgID: env.A.OrgID})
	store := record.Store{Table: env.Deps.Table, Clock: env.Clock}
	for _, trigger := range []alert.Trigger{alert.OnFailure, alert.OnSuccess, alert.OnSLABreach, alert.OnRetry} {
		found, err := alert.RulesFor(ctx, store, trigger, "etl")
		require.NoError(t, err)
		var names []string
		for _, r := range found {
			names = append(names, r.Name)
		}
		assert.Equal(t, []string{string(trigger) + " of all", string(trigger) + " of etl"}, names)
	}
}

// interrupted is a table in which something happens before the next transaction.
type interrupted struct {
	table.Table
	before func()
}

func (i *interrupted) Transact(ctx context.Context, writes ...table.Write) error {
	if before := i.before; before != nil {
		i.before = nil
		before()
	}
	return i.Table.Transact(ctx, writes...)
}

func TestRuleOfChannelThatIsDeletedMeanwhile(t *testing.T) {
	t.Parallel()
	var tbl *interrupted
	env := localtest.Open(t, localtest.Options{Wrap: func(inner table.Table) table.Table { tbl = &interrupted{Table: inner}; return tbl }}, notifications.Spec)
	first, second := create(t, env, "chat", configs["chat"][0]), create(t, env, "chat", configs["chat"][0])
	rule := func(id string) *localtest.Response {
		return env.Do(t, env.A.Key, "POST", "/alert-rules", object{"name": "r", "trigger": "on_failure", "channel_ids": []string{id}})
	}
	tbl.before = func() { env.Do(t, env.A.Key, "DELETE", "/channels/"+first, nil).Require(t, 200) }
	rule(first).Require(t, 422)
	tbl.before = func() { rule(second).Require(t, 201) }
	env.Do(t, env.A.Key, "DELETE", "/channels/"+second, nil).Require(t, 409)
	env.Do(t, env.A.Key, "GET", "/channels/"+second, nil).Require(t, 200)
}

// receiver is a server that receives messages.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	bodies []string
}

func receive(t *testing.T, status int) *receiver {
	t.Helper()
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		r.mu.Lock()
		r.bodies = append(r.bodies, string(body))
		r.mu.Unlock()
		w.WriteHeader(status)
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) got() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.bodies...)
}

// loopback allows messages to this machine.
var loopback = localtest.Options{Config: fn.Config{AllowLoopback: true, LinkURL: localtest.BaseURL}}

func TestTestReachesTheChannelsOfTheRule(t *testing.T) {
	t.Parallel()
	env := localtest.Open(t, loopback, notifications.Spec)
	env.Clock.Advance(time.Minute)
	good, bad := receive(t, 200), receive(t, 403)
	chat := create(t, env, "chat", `{"webhook_url": "`+good.URL+`/chat"}`)
	env.Clock.Advance(time.Second)
	hook := create(t, env, "webhook", `{"url": "`+bad.URL+`/hook/`+canary+`"}`)
	env.Clock.Advance(time.Second)
	email := create(t, env, "email", configs["email"][0])
	rule := func(body object) string {
		body["name"] = "r"
		return env.Do(t, env.A.Key, "POST", "/alert-rules", body).Require(t, 201).String(t, "rule_id")
	}
	before := env.AuditCount(t, env.A.OrgID)
	all := env.Do(t, env.A.Key, "POST", "/alert-rules/"+rule(object{"trigger": "on_failure", "flow_name": "etl"})+"/test", nil).Require(t, 200)
	host := func(url string) string { return strings.TrimPrefix(url, "http://") }
	assert.Equal(t, object{"delivered": []any{
		object{"channel_id": chat, "status": "delivered", "detail": host(good.URL) + " answered 200"},
		object{"channel_id": hook, "status": "failed", "detail": host(bad.URL) + " answered 403"},
		object{"channel_id": email, "status": "failed", "detail": "no mail server is set"},
	}}, all.Object(t))
	require.Len(t, good.got(), 1)
	assert.Contains(t, good.got()[0], "[TEST] etl FAILED")
	require.Len(t, bad.got(), 1)
	assert.Contains(t, bad.got()[0], `"test":true`)
	entries := env.Audit(t, env.A.OrgID)[before:]
	require.Len(t, entries, 2)
	data, err := json.Marshal(entries)
	require.NoError(t, err)
	assert.NotContains(t, string(data), canary)
	last := env.Do(t, env.A.Key, "GET", "/channels/"+hook, nil).Require(t, 200)
	assert.Equal(t, "failed", last.String(t, "last_delivery", "status"))
	assert.Equal(t, host(bad.URL)+" answered 403", last.String(t, "last_delivery", "detail"))

	env.Do(t, env.A.Key, "POST", "/alert-rules/"+rule(object{"trigger": "on_success", "channel_ids": []string{chat}})+"/test", nil).Require(t, 200)
	require.Len(t, good.got(), 2)
	assert.Contains(t, good.got()[1], "[TEST] example SUCCEEDED")
	assert.Len(t, bad.got(), 1, "the rule does not name it")
}

func TestTestOfRuleWithoutChannels(t *testing.T) {
	t.Parallel()
	env := localtest.New(t, notifications.Spec)
	id := env.Do(t, env.A.Key, "POST", "/alert-rules", object{"name": "r", "trigger": "on_failure"}).Require(t, 201).String(t, "rule_id")
	assert.Equal(t, object{"delivered": []any{}}, env.Do(t, env.A.Key, "POST", "/alert-rules/"+id+"/test", nil).Require(t, 200).Object(t))
}

// TestChannelsAreTestedAtOnce holds back every answer until all channels were
// asked.
func TestChannelsAreTestedAtOnce(t *testing.T) {
	t.Parallel()
	env := localtest.Open(t, loopback, notifications.Spec)
	const n = 20
	var all sync.WaitGroup
	all.Add(n)
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { all.Done(); all.Wait() }))
	defer s.Close()
	for range n {
		create(t, env, "chat", `{"webhook_url": "`+s.URL+`"}`)
	}
	id := env.Do(t, env.A.Key, "POST", "/alert-rules", object{"name": "r", "trigger": "on_failure"}).Require(t, 201).String(t, "rule_id")
	for _, outcome := range env.Do(t, env.A.Key, "POST", "/alert-rules/"+id+"/test", nil).Require(t, 200).Get(t, "delivered").([]any) {
		assert.Equal(t, "delivered", outcome.(object)["status"])
	}
}
