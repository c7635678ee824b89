// Package setting stores what an operator has set for a workspace.
//
// Stored items, at <org>#settings:
//
//	backfills  whether backfills are switched off
package setting

import (
	"context"
	"errors"
	"fmt"
	"time"

	"millrace/shared/account/audit"
	"millrace/shared/account/identity"
	"millrace/shared/platform/table"
)

// toggle is the item of a part of the service that is on unless it is switched
// off.
type toggle struct {
	table.Key
	Off bool `table:"off,omitempty"`
}

func backfillsKey(org string) table.Key { return table.Key{PK: org + "#settings", SK: "backfills"} }

// Backfills reports whether backfills are on in a workspace.
func Backfills(ctx context.Context, t table.Table, org string) (bool, error) {
	found, err := table.Load[toggle](ctx, t, backfillsKey(org), table.Consistent)
	if errors.Is(err, table.ErrNotFound) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("read the settings of a workspace: %w", err)
	}
	return !found.Off, nil
}

// SwitchBackfills switches the backfills of a workspace on or off. It does
// nothing if they are so already. Errors: errs.NotFound.
func SwitchBackfills(ctx context.Context, t table.Table, now time.Time, org string, on bool) error {
	if _, err := identity.GetWorkspace(ctx, t, org); err != nil {
		return err
	}
	was, err := Backfills(ctx, t, org)
	if err != nil || was == on {
		return err
	}
	return t.Transact(ctx,
		table.Put{Item: toggle{Key: backfillsKey(org), Off: !on}},
		audit.EntryFor(ctx, org, now, audit.Change{
			Action: "switch_backfills", ResourceType: "org", ResourceID: org,
			Before: map[string]any{"backfills": was}, After: map[string]any{"backfills": on},
		}),
	)
}
