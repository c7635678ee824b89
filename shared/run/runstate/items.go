package runstate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"millrace/shared/platform/table"
)

// Attributes of a map's entry in the list of its workspace.
const (
	itemsPK = "l1_pk"
	itemsSK = "l1_sk"
)

// itemsPartition returns the list of a workspace's maps with unfinished
// instances. Its sort keys are widths: each instance reads the map's item, so
// its attributes must be short.
func itemsPartition(org string) string { return org + "#m" }

// ListItems returns the actions that add a map with the given number of
// instances to its workspace's list.
func ListItems(org string, width int) []table.Action {
	return []table.Action{table.Set(itemsPK, itemsPartition(org)), table.Set(itemsSK, strconv.Itoa(width))}
}

// UnlistItems returns the actions that remove a map from the list.
func UnlistItems() []table.Action {
	return []table.Action{table.Remove(itemsPK), table.Remove(itemsSK)}
}

// CountItems counts the instances of a workspace's unfinished maps in runs that
// have not ended. It removes the entries that stopped runs have left in the
// list.
func CountItems(ctx context.Context, t table.Table, org string) (int64, error) {
	type mapped struct {
		key   table.Key
		width int64
	}
	byRun := map[string][]mapped{}
	for item, err := range table.All(ctx, t, table.Query{Index: table.ByList, PK: itemsPartition(org)}) {
		if err != nil {
			return 0, fmt.Errorf("count map instances: %w", err)
		}
		entry, _ := item.Entry(table.ByList)
		width, err := strconv.ParseInt(entry.SK, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("count map instances: unknown place %q", entry.SK)
		}
		run, _, _ := strings.Cut(strings.TrimPrefix(item.Key().PK, partition(org, "")), "#")
		byRun[run] = append(byRun[run], mapped{item.Key(), width})
	}
	sum := int64(0)
	for runs := range slices.Chunk(slices.Sorted(maps.Keys(byRun)), table.MaxBatchGet) {
		keys := make([]table.Key, len(runs))
		for i, run := range runs {
			keys[i] = RunKey(org, run)
		}
		items, err := t.BatchGet(ctx, keys, table.Only("id", RunStatus))
		if err != nil {
			return 0, fmt.Errorf("count map instances: %w", err)
		}
		records, err := table.Decode[Run](items)
		if err != nil {
			return 0, err
		}
		for _, r := range records {
			for _, m := range byRun[r.ID] {
				if !r.Status.RunEnded() {
					sum += m.width
					continue
				}
				_, err := t.Update(ctx, table.Update{Key: m.key, Do: UnlistItems(), If: table.IsStored()})
				if err != nil && !errors.Is(err, table.ErrConditionFailed) {
					return 0, fmt.Errorf("count map instances: %w", err)
				}
			}
		}
	}
	return sum, nil
}
