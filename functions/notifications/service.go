package notifications

import (
	"context"

	"millrace/shared/account/tenant"
	"millrace/shared/kit/record"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/ids"
	"millrace/shared/platform/vault"
	"millrace/shared/run/alert"
	"millrace/shared/web/fn"
	"millrace/shared/web/httpapi"
)

// service implements the rules of channels and alert rules.
type service struct {
	store    record.Store
	channels record.Set[alert.Channel, *alert.Channel]
	rules    record.Set[alert.Rule, *alert.Rule]
	vault    vault.Vault
	sender   *alert.Sender
	cursors  httpapi.Cursors
}

func newService(d fn.Deps) *service {
	return &service{
		store: d.Records(), channels: alert.Channels(d.Records()), rules: alert.Rules(d.Records()), vault: d.Vault, sender: d.Alerts(),
	}
}

// createChannel creates a channel. Errors: errs.Unprocessable, errs.TooMany.
func (s *service) createChannel(ctx context.Context, in *createChannelIn) (alert.Channel, error) {
	config, err := alert.ParseConfig(in.Body.ChannelType, in.Body.ConfigJSON)
	if err != nil {
		return alert.Channel{}, err
	}
	made := alert.Channel{
		Org: tenant.From(ctx).OrgID, ChannelID: "chn_" + ids.New(s.store.Clock.Now()),
		Type: in.Body.ChannelType, Name: in.Body.Name, Enabled: true,
	}
	if err := made.Seal(ctx, s.vault, config); err != nil {
		return made, err
	}
	return s.channels.Create(ctx, made.ChannelID, made)
}

// listChannels lists channels in order of their ids. Errors: errs.Invalid for a bad
// next_token.
func (s *service) listChannels(ctx context.Context, in *listIn) (ChannelListResponse, error) {
	all, next, err := httpapi.ReadPage(ctx, s.cursors, in, func(after string) ([]alert.Channel, string, error) {
		return s.channels.Page(ctx, after, in.Limit, nil)
	})
	return ChannelListResponse{all, next}, err
}

// getChannel returns a channel. Errors: errs.NotFound.
func (s *service) getChannel(ctx context.Context, in *ChannelPath) (alert.Channel, error) {
	return s.channels.Get(ctx, in.ID)
}

// maxNamed is the number of rules that an error names.
const maxNamed = 20

// deleteChannel deletes a channel. A rule that is created meanwhile changes the
// channel's revision, so that the deletion is tried again and finds it. Errors:
// errs.NotFound; errs.Conflict if rules name the channel.
func (s *service) deleteChannel(ctx context.Context, in *ChannelPath) (DeletedChannel, error) {
	_, err := s.channels.Delete(ctx, in.ID, func(c *alert.Channel) error {
		naming, err := s.rules.List(ctx, "", maxNamed+1, func(r *alert.Rule) bool { return r.Names(c.ChannelID) })
		if err != nil || len(naming) == 0 {
			return err
		}
		text := ""
		for i, r := range naming {
			switch {
			case i == maxNamed:
				text += " and more"
				continue
			case i > 0:
				text += ", "
			}
			text += "'" + r.Name + "' (" + r.RuleID + ")"
		}
		return errs.New(errs.Conflict, "Channel '%s' is in use by alert rule %s; delete them first", c.ChannelID, text)
	})
	return DeletedChannel{Status: "deleted", ChannelID: in.ID}, err
}
