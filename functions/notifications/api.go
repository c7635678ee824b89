package notifications

import (
	"millrace/shared/account/tenant"
	"millrace/shared/run/alert"
	"millrace/shared/web/fn"
	"millrace/shared/web/httpapi"
)

// ChannelCreateRequest is the body of POST /channels.
type ChannelCreateRequest struct {
	ChannelType string  `json:"channel_type" enum:"chat,email,webhook,incident" example:"webhook"`
	Name        string  `json:"name" is:"title" minLength:"1" maxLength:"256" example:"On-call"`
	ConfigJSON  *string `json:"config_json,omitempty" maxLength:"131072" secret:"true" example:"{\"url\": \"https://example.com/hooks/millrace\", \"secret\": \"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\"}" doc:"JSON. chat: {webhook_url}; email: {to: [address]}; webhook: {url, secret, headers}, of which only url is required; incident: {routing_key, url}, without url PagerDuty's"`
}

// ChannelListResponse lists channels.
type ChannelListResponse struct {
	Items     []alert.Channel `json:"items"`
	NextToken string          `json:"next_token,omitempty" doc:"Absent at the end"`
}

// DeletedChannel identifies the deleted channel.
type DeletedChannel struct {
	Status    string `json:"status" enum:"deleted"`
	ChannelID string `json:"channel_id"`
}

// AlertRuleCreateRequest is the body of POST /alert-rules.
type AlertRuleCreateRequest struct {
	Name       string        `json:"name" is:"title" minLength:"1" maxLength:"256" example:"Failures of daily-sales"`
	Trigger    alert.Trigger `json:"trigger" enum:"on_failure,on_success,on_sla_breach,on_retry" example:"on_failure"`
	FlowName   *string       `json:"flow_name,omitempty" is:"name" example:"daily-sales" doc:"null: every flow"`
	ChannelIDs []string      `json:"channel_ids,omitempty" nullable:"true" maxItems:"50" doc:"null or empty: every channel that is enabled when something happens"`
	SLASeconds *int64        `json:"sla_seconds,omitempty" minimum:"1" maximum:"31622400" doc:"Of on_sla_breach, and required there: how long a run may take"`
}

// AlertRuleListResponse lists alert rules.
type AlertRuleListResponse struct {
	Items     []alert.Rule `json:"items"`
	NextToken string       `json:"next_token,omitempty" doc:"Absent at the end"`
}

// DeletedRule identifies the deleted rule.
type DeletedRule struct {
	Status string `json:"status" enum:"deleted"`
	RuleID string `json:"rule_id"`
}

// AlertRuleTestResponse is the outcome of a test.
type AlertRuleTestResponse struct {
	Delivered []ChannelOutcome `json:"delivered" doc:"One entry for each channel of the rule"`
}

// ChannelOutcome is the outcome of a test in one channel.
type ChannelOutcome struct {
	ChannelID string `json:"channel_id"`
	Status    string `json:"status" enum:"delivered,failed"`
	Detail    string `json:"detail" doc:"What the receiver answered, or why the message did not reach it"`
}

// ChannelPath names a channel.
type ChannelPath struct {
	ID string `path:"channel_id" is:"name"`
}

// RulePath names an alert rule.
type RulePath struct {
	ID string `path:"rule_id" is:"name"`
}

type (
	createChannelIn struct{ Body ChannelCreateRequest }
	createRuleIn    struct{ Body AlertRuleCreateRequest }
	listIn          struct {
		Limit     int    `query:"limit" minimum:"1" maximum:"1000" default:"100"`
		NextToken string `query:"next_token" maxLength:"4096"`
	}
)

func routes(api *httpapi.API, d fn.Deps) {
	s := newService(d)
	s.cursors = api.Cursors()
	g := httpapi.Group{
		API: api, Function: name, Reads: tenant.Needs(tenant.NotificationsRead), Writes: tenant.Needs(tenant.NotificationsWrite),
	}
	const (
		channel = "/channels/{channel_id}"
		rule    = "/alert-rules/{rule_id}"
	)
	httpapi.Post(g, "/channels", s.createChannel, "Create a notification channel", httpapi.Status(201), httpapi.Alias("/notifications/channels"),
		httpapi.Doc("Its configuration is sealed. Answers and audit entries show *** for URLs, keys, secrets and the values of headers. "+
			"Messages go only to public addresses, unless the operator allows others; redirects are not followed."))
	httpapi.Get(g, "/channels", s.listChannels, "List notification channels", httpapi.Errors(400), httpapi.Alias("/notifications/channels"),
		httpapi.Doc("The oldest first."))
	httpapi.Get(g, channel, s.getChannel, "Get a notification channel", httpapi.Doc("With the outcome of its last message."))
	httpapi.Delete(g, channel, s.deleteChannel, "Delete a notification channel", httpapi.Errors(409),
		httpapi.Doc("409 names the alert rules that name it."))
	httpapi.Post(g, "/alert-rules", s.createRule, "Create an alert rule", httpapi.Status(201), httpapi.Errors(409), httpapi.Alias("/notifications/rules"),
		httpapi.Doc("on_failure: a run fails or times out; on_success: a run succeeds; on_sla_breach: a run takes longer than sla_seconds; on_retry: a task is tried again. "+
			"The flow need not exist yet. An unknown channel is 422."))
	httpapi.Get(g, "/alert-rules", s.listRules, "List alert rules", httpapi.Errors(400), httpapi.Doc("By trigger, the oldest first."))
	httpapi.Get(g, rule, s.getRule, "Get an alert rule")
	httpapi.Delete(g, rule, s.deleteRule, "Delete an alert rule")
	httpapi.Post(g, rule+"/test", s.testRule, "Test an alert rule",
		httpapi.Doc("Sends a message that is marked as a test, about a run that does not exist, to each channel of the rule at once, and answers when all have accepted or refused it. "+
			"A failed message is not sent again."))
}
