package tabletest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"millrace/shared/platform/table"

	"github.com/stretchr/testify/assert"
)

// forms records which forms of the port's language were exercised.
type forms struct {
	mu   sync.Mutex
	seen map[string]bool
}

func newForms() *forms { return &forms{seen: map[string]bool{}} }

// expected returns all forms.
func expected() []string {
	var out []string
	for _, c := range []table.Cond{
		table.CondExists{}, table.CondExists{Not: true}, table.CondIn{}, table.CondPrefix{},
		table.CondContains{}, table.CondAll{}, table.CondAny{}, table.CondNot{},
	} {
		out = append(out, condForm(c))
	}
	for op := table.OpEq; op <= table.OpGe; op++ {
		out = append(out, condForm(table.CondCompare{Op: op}))
	}
	for _, a := range []table.Action{
		table.ActSet{}, table.ActSet{IfAbsent: true}, table.ActRemove{}, table.ActAppend{},
		table.ActAdd{Value: table.V(1)}, table.ActAdd{Value: table.SetOf(1)}, table.ActAdd{Value: table.SetOf("a")},
		table.ActDrop{Value: table.SetOf(1)}, table.ActDrop{Value: table.SetOf("a")},
	} {
		out = append(out, actionForm(a))
	}
	for kind := table.RangeAll; kind <= table.RangeBefore; kind++ {
		out = append(out, rangeForm("", kind, false), rangeForm("", kind, true))
		out = append(out, rangeForm("index", kind, false), rangeForm("index", kind, true))
	}
	for _, x := range table.Indexes {
		out = append(out, fmt.Sprintf("index %s", x))
	}
	for _, read := range []table.Operation{table.OpGet, table.OpBatchGet, table.OpQuery} {
		out = append(out, projectionForm(read))
	}
	for _, w := range []table.Write{table.Put{}, table.Update{}, table.Delete{}, table.Check{}} {
		out = append(out, fmt.Sprintf("%T in a transaction", w))
	}
	return out
}

func condForm(c table.Cond) string {
	switch c := c.(type) {
	case table.CondExists:
		return fmt.Sprintf("%T not=%t", c, c.Not)
	case table.CondCompare:
		return fmt.Sprintf("%T op=%d", c, c.Op)
	}
	return fmt.Sprintf("%T", c)
}

func actionForm(a table.Action) string {
	switch a := a.(type) {
	case table.ActSet:
		return fmt.Sprintf("%T if-absent=%t", a, a.IfAbsent)
	case table.ActAdd:
		return fmt.Sprintf("%T %s", a, a.Value.Kind())
	case table.ActDrop:
		return fmt.Sprintf("%T %s", a, a.Value.Kind())
	}
	return fmt.Sprintf("%T", a)
}

func rangeForm(x table.Index, kind table.RangeKind, reverse bool) string {
	where := "table"
	if x != "" {
		where = "index"
	}
	return fmt.Sprintf("range %d of %s reverse=%t", kind, where, reverse)
}

func projectionForm(read table.Operation) string { return fmt.Sprintf("projection of %s", read) }

func (f *forms) add(form string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen[form] = true
}

func (f *forms) cond(c table.Cond) {
	if c == nil {
		return
	}
	f.add(condForm(c))
	switch c := c.(type) {
	case table.CondAll:
		for _, m := range c {
			f.cond(m)
		}
	case table.CondAny:
		for _, m := range c {
			f.cond(m)
		}
	case table.CondNot:
		f.cond(c.Cond)
	}
}

func (f *forms) write(w table.Write) {
	switch w := w.(type) {
	case table.Put:
		f.cond(w.If)
	case table.Update:
		f.cond(w.If)
		for _, a := range w.Do {
			f.add(actionForm(a))
		}
	case table.Delete:
		f.cond(w.If)
	case table.Check:
		f.cond(w.If)
	}
}

func (f *forms) read(of table.Operation, opts []table.ReadOption) {
	if o, err := table.NewReadOptions(opts); err == nil && len(o.Only) > 0 {
		f.add(projectionForm(of))
	}
}

// check fails if a form was never exercised, or if an unlisted one was.
func (f *forms) check(t *testing.T) {
	t.Helper()
	want := expected()
	for _, form := range want {
		assert.True(t, f.seen[form], "the suite never exercised %s", form)
	}
	for form := range f.seen {
		assert.True(t, slices.Contains(want, form), "the suite's list of forms lacks %s", form)
	}
}

// recorder is a table that records the forms used.
type recorder struct {
	table.Table
	seen *forms
}

func (r *recorder) Get(ctx context.Context, key table.Key, opts ...table.ReadOption) (table.Item, error) {
	r.seen.read(table.OpGet, opts)
	return r.Table.Get(ctx, key, opts...)
}

func (r *recorder) BatchGet(ctx context.Context, keys []table.Key, opts ...table.ReadOption) ([]table.Item, error) {
	r.seen.read(table.OpBatchGet, opts)
	return r.Table.BatchGet(ctx, keys, opts...)
}

func (r *recorder) Put(ctx context.Context, w table.Put) error {
	r.seen.write(w)
	return r.Table.Put(ctx, w)
}

func (r *recorder) Update(ctx context.Context, w table.Update) (table.Item, error) {
	r.seen.write(w)
	return r.Table.Update(ctx, w)
}

func (r *recorder) Delete(ctx context.Context, w table.Delete) error {
	r.seen.write(w)
	return r.Table.Delete(ctx, w)
}

func (r *recorder) Transact(ctx context.Context, writes ...table.Write) error {
	for _, w := range writes {
		r.seen.write(w)
		r.seen.add(fmt.Sprintf("%T in a transaction", w))
	}
	return r.Table.Transact(ctx, writes...)
}

func (r *recorder) Query(ctx context.Context, q table.Query) (table.Page, error) {
	r.seen.add(rangeForm(q.Index, q.Range.Kind, q.Reverse))
	if q.Index != "" {
		r.seen.add(fmt.Sprintf("index %s", q.Index))
	}
	r.seen.cond(q.Filter)
	if len(q.Only) > 0 {
		r.seen.add(projectionForm(table.OpQuery))
	}
	return r.Table.Query(ctx, q)
}
