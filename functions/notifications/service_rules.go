package notifications

import (
	"context"
	"errors"
	"slices"
	"sync"

	"millrace/shared/account/tenant"
	"millrace/shared/kit/record"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/ids"
	"millrace/shared/platform/table"
	"millrace/shared/run/alert"
	"millrace/shared/web/httpapi"
)

// createRule creates an alert rule. Errors: errs.Unprocessable, also for a channel
// that does not exist, or is deleted meanwhile; errs.TooMany.
func (s *service) createRule(ctx context.Context, in *createRuleIn) (alert.Rule, error) {
	body, now := &in.Body, s.store.Clock.Now()
	if err := checkRule(body); err != nil {
		return alert.Rule{}, err
	}
	made := alert.Rule{
		Org: tenant.From(ctx).OrgID, RuleID: alert.NewRuleID(body.Trigger, now),
		Name: body.Name, Trigger: body.Trigger, FlowName: body.FlowName, SLASeconds: body.SLASeconds, Enabled: true,
	}
	if len(body.ChannelIDs) > 0 {
		made.ChannelIDs = body.ChannelIDs
	}
	if made.Trigger == alert.OnSLABreach {
		made.Watch(s.rules.Key(ctx, made.RuleID), now)
	}
	out, err := s.rules.Write(ctx, made.RuleID, record.Change[alert.Rule]{
		Next: func(*alert.Rule) (alert.Rule, error) { return made, s.checkChannels(ctx, made.ChannelIDs) },
		Also: func(record.Outcome[alert.Rule]) []table.Write {
			writes := make([]table.Write, len(made.ChannelIDs))
			for i, id := range made.ChannelIDs { // see deleteChannel
				writes[i] = table.Update{Key: s.channels.Key(ctx, id), Do: []table.Action{record.Touch(now)}, If: table.IsStored()} //guard:alert/channel-exists drop
			}
			return writes
		},
	})
	return out.After, err
}

// noChannel is said of an id that no channel has; none is longer than maxID.
const (
	noChannel = "there is no channel of this id"
	maxID     = 128
)

// checkRule refuses fields that do not fit together.
func checkRule(body *AlertRuleCreateRequest) error {
	var faults []errs.Detail
	fault := func(text string, input any, loc ...any) {
		faults = append(faults, errs.Detail{Type: "value_error", Loc: errs.Body(loc...), Msg: text, Input: input})
	}
	switch isSLA := body.Trigger == alert.OnSLABreach; {
	case isSLA && body.SLASeconds == nil:
		fault("a rule of on_sla_breach needs sla_seconds", nil, "sla_seconds")
	case !isSLA && body.SLASeconds != nil:
		fault("only a rule of on_sla_breach has sla_seconds", *body.SLASeconds, "sla_seconds")
	}
	seen := map[string]bool{}
	for i, id := range body.ChannelIDs {
		switch {
		case seen[id]:
			fault("is listed twice", id, "channel_ids", i)
		case id == "" || len(id) > maxID:
			fault(noChannel, id, "channel_ids", i)
		}
		seen[id] = true
	}
	if len(faults) > 0 {
		return errs.Validation(faults...)
	}
	return nil
}

// checkChannels refuses ids of channels that do not exist.
func (s *service) checkChannels(ctx context.Context, channelIDs []string) error {
	if len(channelIDs) == 0 {
		return nil
	}
	found, err := alert.ChannelsByID(ctx, s.store, channelIDs)
	if err != nil || len(found) == len(channelIDs) {
		return err
	}
	var faults []errs.Detail
	for i, id := range channelIDs {
		if !slices.ContainsFunc(found, func(c alert.Channel) bool { return c.ChannelID == id }) {
			faults = append(faults, errs.Detail{Type: "value_error", Loc: errs.Body("channel_ids", i), Msg: noChannel, Input: id})
		}
	}
	return errs.Validation(faults...)
}

// listRules lists rules in order of their ids. Errors: errs.Invalid for a bad
// next_token.
func (s *service) listRules(ctx context.Context, in *listIn) (AlertRuleListResponse, error) {
	all, next, err := httpapi.ReadPage(ctx, s.cursors, in, func(after string) ([]alert.Rule, string, error) {
		return s.rules.Page(ctx, after, in.Limit, nil)
	})
	return AlertRuleListResponse{all, next}, err
}

// getRule returns a rule. Errors: errs.NotFound.
func (s *service) getRule(ctx context.Context, in *RulePath) (alert.Rule, error) {
	return s.rules.Get(ctx, in.ID)
}

// deleteRule deletes a rule. Errors: errs.NotFound.
func (s *service) deleteRule(ctx context.Context, in *RulePath) (DeletedRule, error) {
	_, err := s.rules.Delete(ctx, in.ID, nil)
	return DeletedRule{Status: "deleted", RuleID: in.ID}, err
}

// testRule sends a test to each channel of a rule, to all at once, so that it
// takes no longer than the slowest. Errors: errs.NotFound.
func (s *service) testRule(ctx context.Context, in *RulePath) (AlertRuleTestResponse, error) {
	rule, err := s.rules.Get(ctx, in.ID)
	if err != nil {
		return AlertRuleTestResponse{}, err
	}
	channels, err := alert.ChannelsOf(ctx, s.store, &rule)
	if err != nil {
		return AlertRuleTestResponse{}, err
	}
	now := s.store.Clock.Now()
	message := alert.Sample("test_"+ids.New(now), rule.Org, rule, now)
	out := AlertRuleTestResponse{Delivered: make([]ChannelOutcome, len(channels))}
	faults := make([]error, len(channels))
	var wg sync.WaitGroup
	for i := range channels {
		wg.Go(func() {
			c := &channels[i]
			result := s.sender.Send(ctx, c, message)
			out.Delivered[i] = ChannelOutcome{ChannelID: c.ChannelID, Status: result.Status, Detail: result.Detail}
			faults[i] = alert.Delivered(ctx, s.store, c.ChannelID, alert.Delivery{
				At: clock.ToMillis(s.store.Clock.Now()), Status: result.Status, Detail: result.Detail,
			})
		})
	}
	wg.Wait()
	if err := errors.Join(faults...); err != nil {
		return out, err
	}
	return out, s.rules.Note(ctx, rule.RuleID, "test", map[string]any{"delivered": out.Delivered})
}
