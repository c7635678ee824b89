package notifier

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"time"

	"millrace/shared/kit/due"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/table"
	"millrace/shared/run/alert"
)

// Delivery is the kind of timed work of deliveries.
var Delivery = due.Kind{Name: "alert-delivery"}

// retention is how long a delivery is remembered that was settled: longer than
// queues keep messages, so that a late event does not make it anew.
const retention = 15 * 24 * time.Hour

// delivery is the message of one rule to one channel about one occurrence.
//
//	<org>#deliveries  <id>
type delivery struct {
	table.Key
	due.Entry
	Channel string `table:"channel"`
	Message string `table:"message"`          // JSON of a message
	Tries   int    `table:"tries"`            // attempts that were begun
	Status  string `table:"status,omitempty"` // alert.StatusDelivered or StatusFailed; empty: not settled
	Detail  string `table:"detail,omitempty"` // of the last attempt
	Expires int64  `table:"ttl"`              // Unix second
}

// message is an alert.Message as it is stored, without what its delivery has.
type message struct {
	At       clock.Millis  `json:"at"`
	RuleID   string        `json:"rule_id"`
	Name     string        `json:"name"`
	Trigger  alert.Trigger `json:"trigger"`
	Flow     *string       `json:"flow_name,omitempty"`
	SLA      *int64        `json:"sla_seconds,omitempty"`
	Run      alert.Run     `json:"run"`
	Task     *alert.Task   `json:"task,omitempty"`
	Resolved bool          `json:"resolved,omitempty"`
}

// partition returns the partition of a workspace's deliveries.
func partition(org string) string { return org + "#deliveries" }

// idOf returns the id of the delivery of a rule's message about an occurrence to
// a channel. Receivers see it.
func idOf(rule, channel, occurrence string) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{rule, channel, occurrence}, "\x00")))
	return "dlv_" + hex.EncodeToString(sum[:16])
}

// newDelivery returns a delivery that is due at once.
func newDelivery(m *alert.Message, channel, occurrence string, now time.Time) (delivery, error) {
	body, err := json.Marshal(message{
		At: clock.ToMillis(m.At), RuleID: m.Rule.RuleID, Name: m.Rule.Name, Trigger: m.Rule.Trigger, Flow: m.Rule.FlowName,
		SLA: m.Rule.SLASeconds, Run: m.Run, Task: m.Task, Resolved: m.Resolved,
	})
	d := delivery{
		Key:     table.Key{PK: partition(m.Org), SK: idOf(m.Rule.RuleID, channel, occurrence)},
		Channel: channel, Message: string(body), Expires: now.Add(retention).Unix(),
	}
	d.Entry = Delivery.Entry(d.Key, now)
	return d, err
}

// alert returns the message of a delivery.
func (d *delivery) alert() (alert.Message, error) {
	var m message
	if err := json.Unmarshal([]byte(d.Message), &m); err != nil {
		return alert.Message{}, err
	}
	org := due.Org(d.Key)
	return alert.Message{
		ID: d.SK, Org: org, At: m.At.Time(), Run: m.Run, Task: m.Task, Resolved: m.Resolved,
		Rule: alert.Rule{Org: org, RuleID: m.RuleID, Name: m.Name, Trigger: m.Trigger, FlowName: m.Flow, SLASeconds: m.SLA, Enabled: true},
	}, nil
}
