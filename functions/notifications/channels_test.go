package notifications_test

import (
	"encoding/json"
	"fmt"
	"strings"
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
)

type object = map[string]any

const (
	canary  = "kanarienvogel-4711"
	hookURL = "https://hooks.example.com/" + canary
)

// configs is a valid configuration of each type of channel, and how it is shown.
var configs = map[string][2]string{
	"chat":     {`{"webhook_url": "` + hookURL + `"}`, `{"webhook_url": "***"}`},
	"email":    {`{"to": ["ann@example.com", "bob@example.com"]}`, `{"to": ["ann@example.com", "bob@example.com"]}`},
	"webhook":  {`{"url": "` + hookURL + `", "secret": "` + canary + `", "headers": {"X-Token": "` + canary + `"}}`, `{"url": "***", "secret": "***", "headers": {"X-Token": "***"}}`},
	"incident": {`{"routing_key": "` + canary + `", "url": "` + hookURL + `"}`, `{"routing_key": "***", "url": "***"}`},
}

func create(t *testing.T, env *localtest.Env, channelType, config string) string {
	t.Helper()
	return env.Do(t, env.A.Key, "POST", "/channels", object{"channel_type": channelType, "name": "of " + channelType, "config_json": config}).
		Require(t, 201).String(t, "channel_id")
}

func TestAccess(t *testing.T) {
	t.Parallel()
	env := localtest.New(t, notifications.Spec)
	channel := object{"channel_type": "chat", "name": "c", "config_json": configs["chat"][0]}
	rule := object{"name": "r", "trigger": "on_failure"}
	env.CheckAccess(t, "notifications-create-channel", "/channels", channel)
	env.CheckAccess(t, "notifications-create-channel-alias", "/notifications/channels", channel)
	env.CheckAccess(t, "notifications-list-channels", "/channels", nil)
	env.CheckAccess(t, "notifications-list-channels-alias", "/notifications/channels", nil)
	env.CheckAccess(t, "notifications-get-channel", "/channels/chn_1", nil)
	env.CheckAccess(t, "notifications-delete-channel", "/channels/chn_1", nil)
	env.CheckAccess(t, "notifications-create-rule", "/alert-rules", rule)
	env.CheckAccess(t, "notifications-create-rule-alias", "/notifications/rules", rule)
	env.CheckAccess(t, "notifications-list-rules", "/alert-rules", nil)
	env.CheckAccess(t, "notifications-get-rule", "/alert-rules/on_failure_1", nil)
	env.CheckAccess(t, "notifications-delete-rule", "/alert-rules/on_failure_1", nil)
	env.CheckAccess(t, "notifications-test-rule", "/alert-rules/on_failure_1/test", nil)
}

func TestChannelHasItsConfigurationMasked(t *testing.T) {
	t.Parallel()
	for channelType, config := range configs {
		for _, at := range []string{"/channels", "/notifications/channels"} {
			t.Run(channelType+strings.ReplaceAll(at, "/", " "), func(t *testing.T) {
				t.Parallel()
				env := localtest.New(t, notifications.Spec)
				env.Clock.Advance(time.Minute) // entries of one millisecond are not ordered
				before := env.AuditCount(t, env.A.OrgID)
				made := env.Do(t, env.A.Key, "POST", at, object{"channel_type": channelType, "name": "Ops", "config_json": config[0]}).Require(t, 201)
				id := made.String(t, "channel_id")
				assert.JSONEq(t, config[1], made.String(t, "config_json"))
				assert.Equal(t, object{
					"org_id": env.A.OrgID, "channel_id": id, "channel_type": channelType, "name": "Ops", "enabled": true, "last_delivery": nil,
					"config_json": made.String(t, "config_json"), "created_at": made.String(t, "created_at"), "created_by": made.String(t, "created_by"),
				}, made.Object(t))
				assert.JSONEq(t, string(made.Body), string(env.Do(t, env.A.Key, "GET", "/channels/"+id, nil).Require(t, 200).Body))
				list := env.Do(t, env.A.Key, "GET", at, nil).Require(t, 200)
				assert.JSONEq(t, `{"items": [`+string(made.Body)+`]}`, string(list.Body))
				assert.Empty(t, env.Do(t, env.B.Key, "GET", at, nil).Require(t, 200).Items(t), "another workspace's")
				env.Do(t, env.B.Key, "GET", "/channels/"+id, nil).Require(t, 404)
				env.Do(t, env.B.Key, "DELETE", "/channels/"+id, nil).Require(t, 404)

				env.Clock.Advance(time.Minute)
				gone := env.Do(t, env.A.Key, "DELETE", "/channels/"+id, nil).Require(t, 200)
				assert.Equal(t, object{"status": "deleted", "channel_id": id}, gone.Object(t))
				env.Do(t, env.A.Key, "GET", "/channels/"+id, nil).Require(t, 404)
				env.Do(t, env.A.Key, "DELETE", "/channels/"+id, nil).Require(t, 404)
				entries := env.Audit(t, env.A.OrgID)[before:]
				require.Len(t, entries, 2)
				for _, entry := range entries {
					data, err := json.Marshal(entry)
					require.NoError(t, err)
					assert.NotContains(t, string(data), canary)
					assert.Equal(t, "channel "+id, entry.ResourceType+" "+entry.ResourceID)
				}
			})
		}
	}
}

// TestStoredChannelDisclosesNothing reads what a stolen table would tell.
func TestStoredChannelDisclosesNothing(t *testing.T) {
	t.Parallel()
	env := localtest.New(t, notifications.Spec)
	for channelType, config := range configs {
		create(t, env, channelType, config[0])
	}
	n := 0
	for item, err := range table.All(t.Context(), env.Deps.Table, table.Query{PK: env.A.OrgID + "#channels"}) {
		require.NoError(t, err)
		assert.NotContains(t, fmt.Sprint(item), canary)
		n++
	}
	assert.Equal(t, 4, n)
}

func TestWrongConfigurationIsRefusedAtItsField(t *testing.T) {
	t.Parallel()
	env := localtest.New(t, notifications.Spec)
	const url = `"url": "https://example.com/x"`
	long := strings.Repeat("x", 5000)
	headers := func(n int) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf(`"X-%d": "v"`, i))
		}
		return strings.Join(all, ", ")
	}
	for _, test := range []struct {
		channelType, config string
		loc                 []any // below config_json
		msg                 string
	}{
		{"chat", ``, nil, "unexpected end of the JSON"},
		{"chat", `{`, nil, "unexpected end of the JSON"},
		{"chat", `[]`, nil, "not a JSON object"},
		{"chat", `"x"`, nil, "not a JSON object"},
		{"chat", `{"webhook_url": "https://a.b", "webhook_url": "https://a.c"}`, nil, `the field "webhook_url" is there twice`},
		{"chat", `{} {}`, nil, "not JSON: "},
		{"chat", `null`, []any{"webhook_url"}, "Field required for a channel of type chat"},
		{"chat", `{}`, []any{"webhook_url"}, "Field required for a channel of type chat"},
		{"chat", `{"webhook_url": null}`, []any{"webhook_url"}, "Field required for a channel of type chat"},
		{"chat", `{"webhook_url": 1}`, []any{"webhook_url"}, "must be a string"},
		{"chat", `{"webhook_url": ""}`, []any{"webhook_url"}, "must be an absolute http or https URL"},
		{"chat", `{"webhook_url": "***"}`, []any{"webhook_url"}, "must be an absolute http or https URL"},
		{"chat", `{"webhook_url": "ftp://example.com"}`, []any{"webhook_url"}, "must be an absolute http or https URL"},
		{"chat", `{"webhook_url": "https:///x"}`, []any{"webhook_url"}, "must be an absolute http or https URL"},
		{"chat", `{"webhook_url": "https://a.b/\u0000"}`, []any{"webhook_url"}, "must be an absolute http or https URL"},
		{"chat", `{"webhook_url": "https://a.b/` + long + `"}`, []any{"webhook_url"}, "has more than 2048 bytes"},
		{"chat", `{"webhook_url": "https://a.b", "channel": "x"}`, []any{"channel"}, "A channel of type chat has webhook_url"},
		{"email", `{"to": "ann@example.com"}`, []any{"to"}, "must be a list of addresses"},
		{"email", `{"to": []}`, []any{"to"}, "must have 1 to 50 addresses"},
		{"email", `{"to": ["ann@example.com", "bob"]}`, []any{"to", json.Number("1")}, "must be an address such as ann@example.com"},
		{"email", `{"to": ["Ann <ann@example.com>"]}`, []any{"to", json.Number("0")}, "must be an address such as ann@example.com"},
		{"email", `{"to": ["a@b.c\r\nBcc: x@y.z"]}`, []any{"to", json.Number("0")}, "must be an address such as ann@example.com"},
		{"webhook", `{"secret": "x"}`, []any{"url"}, "Field required for a channel of type webhook"},
		{"webhook", `{` + url + `, "secret": ""}`, []any{"secret"}, "must not be empty"},
		{"webhook", `{` + url + `, "secret": "***"}`, []any{"secret"}, "is the mask of a value, not the value"},
		{"webhook", `{` + url + `, "secret": "whsec_not base64"}`, []any{"secret"}, "is not base64 after whsec_"},
		{"webhook", `{` + url + `, "secret": "` + long + `"}`, []any{"secret"}, "has more than 1024 bytes"},
		{"webhook", `{` + url + `, "headers": ["x"]}`, []any{"headers"}, "must be an object of strings"},
		{"webhook", `{` + url + `, "headers": {` + headers(21) + `}}`, []any{"headers"}, "has more than 20 headers"},
		{"webhook", `{` + url + `, "headers": {"a b": "x"}}`, []any{"headers", "a b"}, "is no name of a header"},
		{"webhook", `{` + url + `, "headers": {"Host": "x"}}`, []any{"headers", "Host"}, "is a header that the service sets"},
		{"webhook", `{` + url + `, "headers": {"Webhook-Signature": "x"}}`, []any{"headers", "Webhook-Signature"}, "is a header that the service sets"},
		{"webhook", `{` + url + `, "headers": {"A": "x", "a": "y"}}`, []any{"headers", "a"}, "is there twice: the names of headers do not distinguish case"},
		{"webhook", `{` + url + `, "headers": {"A": "x\r\nB: y"}}`, []any{"headers", "A"}, "has a character that no header can have"},
		{"webhook", `{` + url + `, "headers": {"A": "***"}}`, []any{"headers", "A"}, "is the mask of a value, not the value"},
		{"webhook", `{` + url + `, "headers": {"A": "` + long + `"}}`, []any{"headers", "A"}, "has more than 4096 bytes"},
		{"incident", `{"url": "https://a.b"}`, []any{"routing_key"}, "Field required for a channel of type incident"},
		{"incident", `{"routing_key": "x", "url": "//a.b"}`, []any{"url"}, "must be an absolute http or https URL"},
	} {
		res := env.Do(t, env.A.Key, "POST", "/channels", object{"channel_type": test.channelType, "name": "c", "config_json": test.config})
		if !assert.Equal(t, 422, res.Code, "%s %s: %s", test.channelType, test.config, res.Body) {
			continue
		}
		assert.Equal(t, append([]any{"body", "config_json"}, test.loc...), res.Get(t, "detail", 0, "loc"), "%s %s", test.channelType, test.config)
		assert.Contains(t, res.String(t, "detail", 0, "msg"), test.msg)
		assert.Nil(t, res.Get(t, "detail", 0, "input"), "it could be a secret")
	}
	all := env.Do(t, env.A.Key, "POST", "/channels", object{"channel_type": "webhook", "name": "c", "config_json": `{"url": 1, "secret": 2, "x": 3}`}).Require(t, 422)
	assert.Len(t, all.Get(t, "detail"), 3, "every fault is told")
	for _, body := range []object{
		{"channel_type": "chat", "name": "c"},
		{"channel_type": "chat", "name": "c", "config_json": nil},
		{"channel_type": "chat", "name": "c", "config_json": object{"webhook_url": hookURL}},
		{"channel_type": "pager", "name": "c", "config_json": "{}"},
		{"channel_type": "chat", "name": "", "config_json": configs["chat"][0]},
		{"channel_type": "chat", "name": " ", "config_json": configs["chat"][0]},
		{"channel_type": "chat", "name": "a\nb", "config_json": configs["chat"][0]},
		{"channel_type": "chat", "config_json": configs["chat"][0]},
		{"channel_type": "chat", "name": "c", "config_json": configs["chat"][0], "enabled": false},
	} {
		res := env.Do(t, env.A.Key, "POST", "/channels", body).Require(t, 422)
		assert.NotContains(t, string(res.Body), canary)
	}
	assert.Empty(t, env.Do(t, env.A.Key, "GET", "/channels", nil).Require(t, 200).Items(t))
}

func TestChannelThatRulesNameIsNotDeleted(t *testing.T) {
	t.Parallel()
	env := localtest.New(t, notifications.Spec)
	used, free := create(t, env, "chat", configs["chat"][0]), create(t, env, "email", configs["email"][0])
	var rules []string
	for i := range 25 {
		made := env.Do(t, env.A.Key, "POST", "/alert-rules", object{"name": fmt.Sprint("rule ", i), "trigger": "on_failure", "channel_ids": []string{used}})
		rules = append(rules, made.Require(t, 201).String(t, "rule_id"))
	}
	env.Do(t, env.A.Key, "POST", "/alert-rules", object{"name": "of all", "trigger": "on_failure"}).Require(t, 201)
	env.Do(t, env.A.Key, "DELETE", "/channels/"+free, nil).Require(t, 200)
	refused := env.Do(t, env.A.Key, "DELETE", "/channels/"+used, nil).Require(t, 409).String(t, "detail")
	assert.Contains(t, refused, "Channel '"+used+"' is in use by alert rule ")
	assert.Contains(t, refused, " and more; delete them first")
	assert.Equal(t, 20, strings.Count(refused, "'rule "))
	for _, id := range rules[1:] {
		env.Do(t, env.A.Key, "DELETE", "/alert-rules/"+id, nil).Require(t, 200)
	}
	assert.Equal(t, "Channel '"+used+"' is in use by alert rule 'rule 0' ("+rules[0]+"); delete them first",
		env.Do(t, env.A.Key, "DELETE", "/channels/"+used, nil).Require(t, 409).String(t, "detail"))
	env.Do(t, env.A.Key, "DELETE", "/alert-rules/"+rules[0], nil).Require(t, 200)
	env.Do(t, env.A.Key, "DELETE", "/channels/"+used, nil).Require(t, 200)
}

// TestLastDeliveryIsThatOfTheLastMessage stores outcomes out of order, as messages
// that are sent at once do.
func TestLastDeliveryIsThatOfTheLastMessage(t *testing.T) {
	t.Parallel()
	env := localtest.New(t, notifications.Spec)
	id := create(t, env, "chat", configs["chat"][0])
	ctx := tenant.With(t.Context(), tenant.Principal{OrgID: env.A.OrgID})
	store := record.Store{Table: env.Deps.Table, Clock: env.Clock}
	for _, d := range []alert.Delivery{
		{At: 2000, Status: "failed", Detail: "second"}, {At: 1000, Status: "delivered", Detail: "first"}, {At: 2000, Status: "delivered", Detail: "third"},
	} {
		require.NoError(t, alert.Delivered(ctx, store, id, d))
	}
	got := env.Do(t, env.A.Key, "GET", "/channels/"+id, nil).Require(t, 200)
	assert.Equal(t, object{"at": "1970-01-01T00:00:02.000Z", "status": "delivered", "detail": "third"}, got.Get(t, "last_delivery"))
	env.Do(t, env.A.Key, "DELETE", "/channels/"+id, nil).Require(t, 200)
	require.NoError(t, alert.Delivered(ctx, store, id, alert.Delivery{At: 3000, Status: "failed"}), "the channel is gone")
	env.Do(t, env.A.Key, "GET", "/channels/"+id, nil).Require(t, 404)
}
