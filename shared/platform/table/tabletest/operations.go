package tabletest

import (
	"slices"

	"millrace/shared/platform/table"

	"pgregory.net/rapid"
)

// operation is one step of a history, drawn before it runs.
type operation interface{ play(m *machine) error }

type (
	single      struct{ table.Write }
	transaction struct{ writes []table.Write }
	batch       struct{ writes []table.Write }
	get         struct {
		keys []table.Key // one by one and in a batch
		only []string
	}
	paging struct{ table.Query }
	resume struct{} // continues a query at the last cursor
	scan   struct{} // reads everything
)

// operation draws a step.
func (p pool) operation(t *rapid.T) operation {
	switch form := rapid.IntRange(0, 19).Draw(t, "form"); {
	case form < 8:
		return single{p.write(t, p.key(t), false)}
	case form < 11:
		return transaction{p.writes(t, true)}
	case form < 12:
		return batch{p.writes(t, false)}
	case form < 13:
		return get{p.keys(t), p.only(t)}
	case form < 18:
		return paging{p.query(t)}
	}
	return resume{}
}

func (p pool) write(t *rapid.T, key table.Key, checks bool) table.Write {
	cond := p.maybe(t)
	switch form := rapid.IntRange(0, 9).Draw(t, "write"); {
	case form < 4:
		return table.Put{Item: p.item(t, key), If: cond}
	case form < 5 && checks && cond != nil:
		return table.Check{Key: key, If: cond}
	case form < 8:
		return table.Update{Key: key, Do: p.actions(t), If: cond}
	}
	return table.Delete{Key: key, If: cond}
}

// writes draws the writes of a transaction or of a batch.
func (p pool) writes(t *rapid.T, transaction bool) (ws []table.Write) {
	for _, key := range p.keys(t) {
		switch {
		case transaction:
			ws = append(ws, p.write(t, key, true))
		case rapid.IntRange(0, 2).Draw(t, "deleted") == 0:
			ws = append(ws, table.Delete{Key: key})
		default:
			ws = append(ws, table.Put{Item: p.item(t, key)})
		}
	}
	return ws
}

// only draws the attributes to read, mostly all.
func (p pool) only(t *rapid.T) []string {
	if rapid.IntRange(0, 3).Draw(t, "projection") > 0 {
		return nil
	}
	return rapid.SliceOfNDistinct(rapid.SampledFrom(attributes), 1, 5, rapid.ID[string]).Draw(t, "only")
}

func (p pool) query(t *rapid.T) table.Query {
	q := table.Query{Reverse: rapid.Bool().Draw(t, "reverse"), Limit: rapid.IntRange(0, 4).Draw(t, "limit")}
	var sks []string
	if rapid.Bool().Draw(t, "of an index") {
		q.Index = rapid.SampledFrom(table.Indexes).Draw(t, "index")
		q.PK, sks = rapid.SampledFrom(p.indexPKs).Draw(t, "pk"), p.indexSKs
		if rapid.IntRange(0, 3).Draw(t, "filter") == 0 {
			q.Filter = p.cond(t, []string{"pk", "sk"}, 0)
		}
	} else {
		q.PK, sks, q.Consistent = rapid.SampledFrom(p.pks).Draw(t, "pk"), p.sks, true
		q.Only = p.only(t)
		if rapid.IntRange(0, 3).Draw(t, "filter") == 0 {
			q.Filter = p.cond(t, attributes, 2)
		}
	}
	if q.Index != "" && table.CheckQuery(q) != nil {
		q.Filter = nil // it refers to attributes that the index does not hold
	}
	bound := rapid.SampledFrom(slices.Concat(sks, awkward))
	q.Range.Kind = table.RangeKind(rapid.IntRange(int(table.RangeAll), int(table.RangeBefore)).Draw(t, "range"))
	if q.Range.Kind != table.RangeAll {
		q.Range.From = bound.Draw(t, "from")
	}
	if q.Range.Kind == table.RangeBetween {
		q.Range.To = bound.Draw(t, "to")
	}
	return q
}
