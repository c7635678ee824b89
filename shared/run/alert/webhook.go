package alert

import (
	"context"
	"net/http"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"millrace/shared/platform/clock"
)

// payload is the body of a webhook.
type payload struct {
	Type      string `json:"type"`      // run.failed, run.succeeded, run.sla_breached or task.retried
	Timestamp string `json:"timestamp"` // when it happened
	Data      data   `json:"data"`
}

type data struct {
	Org  string `json:"org_id"`
	Rule rule   `json:"rule"`
	Run  Run    `json:"run"`
	Task *Task  `json:"task"` // null, but in task.retried
	Test bool   `json:"test"`
}

// rule is the rule as a webhook shows it.
type rule struct {
	RuleID     string  `json:"rule_id"`
	Name       string  `json:"name"`
	Trigger    Trigger `json:"trigger"`
	SLASeconds *int64  `json:"sla_seconds"`
}

// webhook sends a message by the rules of Standard Webhooks.
func (s *Sender) webhook(ctx context.Context, config Config, m *Message) Result {
	body, err := json.Marshal(payload{
		Type: m.about().name, Timestamp: clock.Format(m.At),
		Data: data{
			Org: m.Org, Run: m.Run, Task: m.Task, Test: m.Test,
			Rule: rule{RuleID: m.Rule.RuleID, Name: m.Rule.Name, Trigger: m.Rule.Trigger, SLASeconds: m.Rule.SLASeconds},
		},
	})
	if err != nil {
		return failed(false, "the message cannot be written as JSON")
	}
	header := http.Header{}
	for name, value := range config.Headers {
		header.Set(name, value)
	}
	if err := sign(header, config.Secret, m.ID, s.Clock, body); err != nil {
		return failed(false, "the channel's secret is not valid")
	}
	return s.post(ctx, config, config.URL, body, header)
}

// sign sets the headers of Standard Webhooks. Without a secret there is no
// signature. A secret is a key in base64 if it has the prefix whsec, otherwise it
// is the key.
func sign(header http.Header, secret, id string, now clock.Clock, body []byte) error {
	at := now.Now()
	header.Set(standardwebhooks.HeaderWebhookID, id)
	header.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(at.Unix(), 10))
	if secret == "" {
		return nil
	}
	hook, err := standardwebhooks.NewWebhookRaw([]byte(secret))
	if strings.HasPrefix(secret, whsec) {
		hook, err = standardwebhooks.NewWebhook(secret)
	}
	if err != nil {
		return err
	}
	signature, err := hook.Sign(id, at, body)
	header.Set(standardwebhooks.HeaderWebhookSignature, signature)
	return err
}
