package tabletest

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"millrace/shared/platform/table"

	"pgregory.net/rapid"
)

// machine compares the table with its model through one history.
type machine struct {
	*suite
	pool
	model model
	last  table.Query // the last query that was cut short, with its cursor
}

// random runs drawn histories on the table and on its model and compares every
// result.
var random = map[string]func(*suite){
	"RandomOperations": func(s *suite) {
		rounds := 2
		if s.deviates.Immediate {
			rounds = 6
		}
		rapid.Check(s.T, func(t *rapid.T) {
			m := &machine{suite: newSuite(s.T, s.Table), model: model{}}
			m.deviates = s.deviates
			m.pool = drawPool(t, m.prefix)
			for range rounds {
				steps := rapid.SliceOfN(rapid.Custom(m.operation), 0, 20).Draw(t, "steps")
				for i, step := range append(steps, scan{}) {
					if err := step.play(m); err != nil {
						t.Fatalf("step %d, %#v: %v", i, step, err)
					}
				}
			}
		})
	},
}

func (o single) play(m *machine) (err error) {
	reasons, rejected := m.model.write(o.Write)
	switch w := o.Write.(type) {
	case table.Put:
		err = m.Put(m.ctx, w)
	case table.Update:
		var got table.Item
		got, err = m.Update(m.ctx, w)
		if want := m.model[w.Key]; err == nil && !rejected && !sameItem(want, got) {
			return fmt.Errorf("it returns %s, not %s", brief(got), brief(want))
		}
	case table.Delete:
		err = m.Delete(m.ctx, w)
	}
	failed, ok := errors.AsType[*table.ConditionError](err)
	if !rejected {
		if ok && !m.deviates.Immediate && sameItem(m.model[o.Target()], failed.Old) {
			return nil // it was done, the answer was lost, and the driver tried again
		}
		return err
	}
	switch {
	case !errors.Is(err, reasons[0].Err):
		return fmt.Errorf("it ends with %w, not with %w", err, reasons[0].Err)
	case ok && !sameItem(reasons[0].Old, failed.Old):
		return fmt.Errorf("%s stood in its way, not %s", brief(failed.Old), brief(reasons[0].Old))
	}
	return nil
}

func (o transaction) play(m *machine) error {
	want, rejected := m.model.write(o.writes...)
	err := m.transact(o.writes...)
	if !rejected {
		return err
	}
	got, ok := errors.AsType[*table.TransactionError](err)
	if !ok && !m.deviates.Immediate && slices.ContainsFunc(want, func(r table.Reason) bool {
		return r.Err != nil && errors.Is(err, r.Err)
	}) {
		return nil // an action that does not fit its item may fail without reasons
	}
	if !ok || len(got.Reasons) != len(want) {
		return fmt.Errorf("it ends with %w, not with %v", err, want)
	}
	for i, reason := range got.Reasons {
		if !errors.Is(reason.Err, want[i].Err) || !sameItem(reason.Old, want[i].Old) {
			return fmt.Errorf("write %d ends with %w and %s, not with %w and %s",
				i, reason.Err, brief(reason.Old), want[i].Err, brief(want[i].Old))
		}
	}
	return nil
}

func (o batch) play(m *machine) error {
	m.model.write(o.writes...)
	return m.BatchWrite(m.ctx, o.writes)
}

func (o get) play(m *machine) error {
	var want []table.Item
	for _, key := range o.keys {
		got, err := m.Get(m.ctx, key, table.Consistent, table.Only(o.only...))
		item, stored := m.model[key]
		switch {
		case stored:
			item = projected([]table.Item{item}, o.only)[0]
			want = append(want, item)
		case errors.Is(err, table.ErrNotFound):
			err = nil
		}
		if err != nil || !sameItem(item, got) {
			return fmt.Errorf("get of %+q: %s and error %w, not %s", key, brief(got), err, brief(item))
		}
	}
	got, err := m.BatchGet(m.ctx, o.keys, table.Consistent, table.Only(o.only...))
	if err != nil || !sameItems(want, got) {
		return fmt.Errorf("%s and error %w, not %s", list(got), err, list(want))
	}
	return nil
}

func (o paging) play(m *machine) error {
	return m.settled(o.Query, func() error {
		rows, err := m.whole(o.Index, o.PK, o.Reverse)
		if err != nil {
			return err
		}
		return m.pages(o.Query, within(o.Range, rows))
	})
}

// play continues after the cursor; the items may have changed meanwhile.
func (resume) play(m *machine) error {
	q := m.last
	if q.Start == "" {
		return nil
	}
	at, err := table.DecodeCursor(q)
	if err != nil {
		return err
	}
	return m.settled(q, func() error {
		rows, err := m.whole(q.Index, q.PK, q.Reverse)
		if err != nil {
			return err
		}
		cursor := row{at: at.Key.SK, key: at.Key}
		if q.Index != "" {
			cursor.at = at.Entry.SK
		}
		if i := slices.IndexFunc(rows, func(x row) bool { return compareRows(x, cursor) == 0 }); i >= 0 {
			return m.pages(q, within(q.Range, rows[i+1:]))
		}
		if slices.ContainsFunc(rows, func(x row) bool { return x.at == cursor.at }) {
			return nil // the order of items with the same index key depends on the driver
		}
		behind := slices.DeleteFunc(rows, func(x row) bool { return q.Reverse != (x.at < cursor.at) })
		return m.pages(q, within(q.Range, behind))
	})
}

func (scan) play(m *machine) error {
	for _, reverse := range []bool{false, true} {
		for _, x := range append([]table.Index{""}, table.Indexes...) {
			pks := m.indexPKs
			if x == "" {
				pks = m.pks
			}
			for _, pk := range pks {
				q := table.Query{Index: x, PK: pk}
				err := m.settled(q, func() error { _, err := m.whole(x, pk, reverse); return err })
				if err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// settled compares the result of a query; for an index it retries until they
// agree.
func (m *machine) settled(q table.Query, compare func() error) error {
	began := time.Now()
	for {
		err := compare()
		if err == nil || q.Index == "" || m.deviates.Immediate || time.Since(began) > patience {
			return err
		}
		time.Sleep(poll)
	}
}
