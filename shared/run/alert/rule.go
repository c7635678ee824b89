package alert

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"millrace/shared/account/quota"
	"millrace/shared/kit/due"
	"millrace/shared/kit/record"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/ids"
)

// MaxChannels is the number of channels that a rule can name.
const MaxChannels = 50

// IDs are ids of channels. Without any they are null in JSON, unlike other lists.
type IDs []string

// MarshalJSON implements json.Marshaler.
func (ids IDs) MarshalJSON() ([]byte, error) { return json.Marshal([]string(ids)) }

// Rule is an alert rule. It is never changed, but for the time of its next look
// at runs.
type Rule struct {
	record.Made
	due.Entry  `json:"-"` // of on_sla_breach
	Org        string     `table:"org" json:"org_id"`
	RuleID     string     `table:"id" json:"rule_id"`
	Name       string     `table:"name" json:"name"`
	Trigger    Trigger    `table:"trigger" json:"trigger" enum:"on_failure,on_success,on_sla_breach,on_retry"`
	FlowName   *string    `table:"flow,omitempty" json:"flow_name" doc:"null: every flow"`
	ChannelIDs IDs        `table:"channels,omitempty" json:"channel_ids" nullable:"true" doc:"null: every enabled channel"`
	SLASeconds *int64     `table:"sla,omitempty" json:"sla_seconds" doc:"Of on_sla_breach"`
	Enabled    bool       `table:"enabled" json:"enabled"`
	// Looked is the time of creation up to which runs were looked at.
	Looked clock.Millis `table:"looked,omitempty" json:"-"`
}

// SchemaName is the name of the schema in the API's description.
func (Rule) SchemaName() string { return "AlertRuleResponse" }

// RuleKind is the record kind of rules, by id.
var RuleKind = record.Kind{Folder: "alert_rules", Type: "alert_rule", Noun: "Alert rule", Limit: quota.AlertRules}

// Rules returns the rules of the workspace of a call's context.
func Rules(s record.Store) record.Set[Rule, *Rule] { return record.New[Rule](RuleKind, s) }

// NewRuleID returns the id of a new rule.
func NewRuleID(t Trigger, now time.Time) string { return prefix(t) + ids.New(now) }

// prefix is that of the ids of a trigger's rules, so that one query finds them.
func prefix(t Trigger) string { return string(t) + "_" }

// Applies reports whether the rule is about a flow.
func (r *Rule) Applies(flow string) bool {
	return r.Enabled && (r.FlowName == nil || *r.FlowName == flow)
}

// Names reports whether the rule names a channel.
func (r *Rule) Names(channelID string) bool { return slices.Contains(r.ChannelIDs, channelID) }

// RulesAbout returns the rules of the workspace of ctx about a flow, by trigger.
// It is one query.
func RulesAbout(ctx context.Context, s record.Store, flow string) ([]Rule, error) {
	found, err := Rules(s).List(ctx, "", 0, func(r *Rule) bool { return r.Applies(flow) })
	if err != nil {
		return nil, fmt.Errorf("rules about %s: %w", flow, err)
	}
	return found, nil
}

// RulesFor returns the rules of the workspace of ctx that wait for a trigger of a
// flow, the oldest first. It is one query, which reads the trigger's rules.
func RulesFor(ctx context.Context, s record.Store, t Trigger, flow string) ([]Rule, error) {
	found, err := Rules(s).List(ctx, prefix(t), 0, func(r *Rule) bool { return r.Applies(flow) })
	if err != nil {
		return nil, fmt.Errorf("rules of %s: %w", t, err)
	}
	return found, nil
}
