package slots

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"strconv"

	"millrace/shared/platform/table"
)

// put replaces the holder of a slot by another one, if it is from. It returns
// whether it did, and the slot's item.
func (s *Slots) put(ctx context.Context, org string, from, to Slot) (bool, table.Item, error) {
	attr := attribute(from.Number % perItem)
	do, holds := table.Remove(attr), table.Absent(attr)
	if !to.None() {
		do = table.Set(attr, to.holder())
	}
	if !from.None() {
		holds = table.Eq(attr, from.holder())
	}
	item, err := s.Table.Update(ctx, table.Update{
		Key: key(org, from.Number/perItem), Do: []table.Action{do},
		If: holds, //guard:slots/holder drop
	})
	if failed, ok := errors.AsType[*table.ConditionError](err); ok {
		return !to.None() && failed.Old[attr].Str() == to.holder(), failed.Old, nil //guard:slots/lost-answer false
	}
	if err != nil {
		return false, nil, fmt.Errorf("write slots: %w", err)
	}
	return true, item, nil
}

// Holds reports whether the holder of a slot has it.
func (s *Slots) Holds(ctx context.Context, org string, slot Slot) (bool, error) {
	item, err := s.Table.Get(ctx, key(org, slot.Number/perItem), table.Consistent)
	if errors.Is(err, table.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read slots: %w", err)
	}
	return item[attribute(slot.Number%perItem)].Str() == slot.holder(), nil
}

// Held returns the slots of a workspace that are held.
func (s *Slots) Held(ctx context.Context, org string) ([]Slot, error) {
	return s.read(ctx, org, table.Consistent)
}

func (s *Slots) read(ctx context.Context, org string, how ...table.ReadOption) ([]Slot, error) {
	own := s.own(org)
	keys := make([]table.Key, items(own))
	for i := range keys {
		keys[i] = key(org, i)
	}
	items, err := s.Table.BatchGet(ctx, keys, how...)
	if err != nil {
		return nil, fmt.Errorf("read slots: %w", err)
	}
	var out []Slot
	for _, item := range items {
		shard, _ := strconv.Atoi(item.Key().SK)
		for i := range perItem {
			if slot := parse(shard*perItem+i, item[attribute(i)].Str()); !slot.None() && slot.Number < own {
				out = append(out, slot)
			}
		}
	}
	return out, nil
}

// Free returns the numbers of the slots of a workspace that are free, as of a
// moment ago, and may be taken.
func (s *Slots) Free(ctx context.Context, org string) ([]int, error) {
	held, err := s.read(ctx, org)
	if err != nil {
		return nil, err
	}
	taken := make(map[int]bool, len(held))
	for _, slot := range held {
		taken[slot.Number] = true
	}
	limit := s.Limit(ctx, org)
	var out []int
	for n := range limit.below {
		if !taken[n] && len(out)+len(held) < limit.Slots { // of those held, some may be above it
			out = append(out, n)
		}
	}
	return out, nil
}

// items is the number of items that have the slots below a limit.
func items(limit int) int { return (limit + perItem - 1) / perItem }

// mask has a bit for each slot of an item that is below a limit.
func mask(limit, shard int) uint16 {
	return uint16(1<<max(0, min(limit-shard*perItem, perItem)) - 1)
}

func key(org string, shard int) table.Key {
	n, slots := strconv.Itoa(shard), org+"#slots#" //guard:tenant/slots operand 1 "all"
	return table.Key{PK: slots + n, SK: n}
}

func attribute(i int) string { return "s" + strconv.Itoa(i) }

func heldIn(item table.Item) (held uint16) {
	for i := range perItem {
		if _, ok := item[attribute(i)]; ok {
			held |= 1 << i
		}
	}
	return held
}

// count returns how many slots of an item are held.
func count(item table.Item) int { return bits.OnesCount16(heldIn(item)) }

// lowest returns the number of the lowest bit.
func lowest(bits uint16) (int, bool) {
	for i := range perItem {
		if bits&(1<<i) != 0 {
			return i, true
		}
	}
	return 0, false
}
