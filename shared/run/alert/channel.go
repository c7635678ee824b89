package alert

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json"

	"millrace/shared/account/quota"
	"millrace/shared/kit/record"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/table"
	"millrace/shared/platform/vault"
)

// The types of channels.
const (
	Chat     = "chat"
	Email    = "email"
	Webhook  = "webhook"
	Incident = "incident"
)

// Channel is a notification channel. Its configuration is sealed by the vault for
// the workspace and the channel. Only its last delivery changes.
type Channel struct {
	record.Made
	Org          string       `table:"org" json:"org_id"`
	ChannelID    string       `table:"id" json:"channel_id"`
	Type         string       `table:"type" json:"channel_type" enum:"chat,email,webhook,incident"`
	Name         string       `table:"name" json:"name"`
	Enabled      bool         `table:"enabled" json:"enabled"`
	ConfigJSON   string       `table:"shown" json:"config_json" doc:"JSON with *** for URLs, keys, secrets and the values of headers"`
	Sealed       vault.Sealed `table:"sealed" json:"-"`
	LastDelivery *Delivery    `table:"last,omitempty" json:"last_delivery" doc:"null: nothing was sent yet"`
	// LastAt is when the last delivery was, for the condition of the next.
	LastAt clock.Millis `table:"last_at,omitempty" json:"-"`
}

// SchemaName is the name of the schema in the API's description.
func (Channel) SchemaName() string { return "ChannelResponse" }

// Delivery is the outcome of the last message to a channel.
type Delivery struct {
	At     clock.Millis `table:"at" json:"at"`
	Status string       `table:"status" json:"status" enum:"delivered,failed"`
	Detail string       `table:"detail" json:"detail" doc:"What the receiver answered, or why the message did not reach it"`
}

// ChannelKind is the record kind of channels, by id.
var ChannelKind = record.Kind{Folder: "channels", Type: "channel", Noun: "Channel", Limit: quota.Channels}

// Channels returns the channels of the workspace of a call's context.
func Channels(s record.Store) record.Set[Channel, *Channel] {
	return record.New[Channel](ChannelKind, s)
}

// ChannelsOf returns the enabled channels of a rule of the workspace of ctx: those
// that it names, or all. In either case it is one request.
func ChannelsOf(ctx context.Context, s record.Store, r *Rule) ([]Channel, error) {
	if len(r.ChannelIDs) == 0 {
		return Channels(s).List(ctx, "", 0, func(c *Channel) bool { return c.Enabled })
	}
	found, err := ChannelsByID(ctx, s, r.ChannelIDs)
	return slices.DeleteFunc(found, func(c Channel) bool { return !c.Enabled }), err
}

// ChannelsByID returns those of up to MaxChannels channels of the workspace of ctx
// that exist, in the order of the ids.
func ChannelsByID(ctx context.Context, s record.Store, ids []string) ([]Channel, error) {
	keys, set := make([]table.Key, len(ids)), Channels(s)
	for i, id := range ids {
		keys[i] = set.Key(ctx, id)
	}
	items, err := s.Table.BatchGet(ctx, keys, table.Consistent)
	if err != nil {
		return nil, fmt.Errorf("read channels: %w", err)
	}
	found, err := table.Decode[Channel](items)
	if err != nil {
		return nil, fmt.Errorf("read channels: %w", err)
	}
	slices.SortFunc(found, func(a, b Channel) int {
		return cmp.Compare(slices.Index(ids, a.ChannelID), slices.Index(ids, b.ChannelID))
	})
	return found, nil
}

// Delivered stores the outcome of a message to a channel of the workspace of ctx,
// unless that of a later one is stored, or the channel is gone.
func Delivered(ctx context.Context, s record.Store, channelID string, d Delivery) error {
	_, err := s.Table.Update(ctx, table.Update{
		Key: Channels(s).Key(ctx, channelID),
		Do:  []table.Action{record.Touch(s.Clock.Now()), table.Set("last", d), table.Set("last_at", d.At)},
		If:  table.And(table.IsStored(), table.Or(table.Absent("last_at"), table.Le("last_at", d.At))),
	})
	if err != nil && !errors.Is(err, table.ErrConditionFailed) {
		return fmt.Errorf("last delivery of channel %s: %w", channelID, err)
	}
	return nil
}

// Seal seals a configuration and sets it as the channel's.
func (c *Channel) Seal(ctx context.Context, v vault.Vault, config Config) error {
	data, err := json.Marshal(config)
	if err != nil {
		return fmt.Errorf("channel %s: %w", c.ChannelID, err)
	}
	if c.Sealed, err = v.Seal(ctx, c.Org, c.purpose(), data); err != nil {
		return fmt.Errorf("seal channel %s: %w", c.ChannelID, err)
	}
	shown, err := json.Marshal(config.masked(), json.Deterministic(true))
	c.ConfigJSON = string(shown)
	return err
}

// open returns the channel's configuration. Errors: those of the vault.
func (c *Channel) open(ctx context.Context, v vault.Vault) (config Config, err error) {
	data, err := v.Open(ctx, c.Org, c.purpose(), c.Sealed)
	if err == nil {
		err = json.Unmarshal(data, &config)
	}
	if err != nil {
		return config, fmt.Errorf("open channel %s: %w", c.ChannelID, err)
	}
	return config, nil
}

// purpose is what a channel's configuration is sealed for.
func (c *Channel) purpose() string { return "channel/" + c.ChannelID }
