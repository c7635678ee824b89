package tabletest

import (
	"errors"
	"maps"
	"slices"

	"millrace/shared/table"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// modelItem is an item of the model: a number, a set and a place in an index,
// each possibly absent.
type modelItem struct {
	n   int64
	set []int
	due string
}

func (m modelItem) item(s *suite, sk string) table.Item {
	item := s.item(sk, "n", m.n)
	if len(m.set) > 0 {
		item["set"] = table.SetOf(m.set...)
	}
	if m.due != "" {
		item["due_pk"], item["due_sk"] = table.V(s.prefix+"#due"), table.V(m.due)
	}
	return item
}

// machine is the table beside its model, driven by random operations.
type machine struct {
	*suite
	items map[string]modelItem
}

var (
	someKeys  = rapid.SampledFrom([]string{"a", "b", "c", "d"})
	someDues  = rapid.SampledFrom([]string{"", "1", "2"})
	someSets  = rapid.SliceOfNDistinct(rapid.IntRange(1, 5), 0, 4, rapid.ID[int])
	someItems = rapid.Custom(func(t *rapid.T) modelItem {
		return modelItem{n: rapid.Int64Range(0, 3).Draw(t, "n"), set: sorted(someSets.Draw(t, "set")), due: someDues.Draw(t, "due")}
	})
)

func sorted(set []int) []int {
	if len(set) == 0 {
		return nil
	}
	return slices.Compact(slices.Sorted(slices.Values(set)))
}

// put stores an item, if the key is new when asked so.
func (m *machine) put(t *rapid.T) {
	sk, item, isNew := someKeys.Draw(t, "key"), someItems.Draw(t, "item"), rapid.Bool().Draw(t, "new")
	put := table.Put{Item: item.item(m.suite, sk)}
	if isNew {
		put.If = table.IsNew()
	}
	_, stored := m.items[sk]
	m.expect(t, isNew && stored, m.Put(m.ctx, put))
	if !isNew || !stored {
		m.items[sk] = item
	}
}

// claim adds to the number and the set of an item that has the number guessed.
func (m *machine) claim(t *rapid.T) {
	sk, guess := someKeys.Draw(t, "key"), rapid.Int64Range(0, 3).Draw(t, "guess")
	member := rapid.IntRange(1, 5).Draw(t, "member")
	_, err := m.Update(m.ctx, m.claiming(sk, guess, member))
	m.expect(t, !m.holds(sk, guess), err)
	if err == nil {
		m.claimed(sk, member)
	}
}

func (m *machine) claiming(sk string, guess int64, member int) table.Update {
	return table.Update{Key: m.key(sk), If: table.Eq("n", guess),
		Do: []table.Action{table.Add("n", 1), table.AddToSet("set", member), table.Remove("due_sk"), table.Remove("due_pk")}}
}

func (m *machine) holds(sk string, guess int64) bool {
	item, ok := m.items[sk]
	return ok && item.n == guess
}

func (m *machine) claimed(sk string, member int) {
	old := m.items[sk]
	m.items[sk] = modelItem{n: old.n + 1, set: sorted(append(slices.Clone(old.set), member))}
}

// drop takes members out of a set, making the item if there is none.
func (m *machine) drop(t *rapid.T) {
	sk, set, n := someKeys.Draw(t, "key"), someSets.Draw(t, "set"), rapid.Int64Range(0, 3).Draw(t, "n")
	do := []table.Action{table.Set("n", n)}
	if len(set) > 0 {
		do = append(do, table.DropFromSet("set", set...))
	}
	_, err := m.Update(m.ctx, table.Update{Key: m.key(sk), Do: do})
	require.NoError(t, err)
	item := m.items[sk]
	item.n = n
	item.set = sorted(slices.DeleteFunc(slices.Clone(item.set), func(x int) bool { return slices.Contains(set, x) }))
	m.items[sk] = item
}

// remove deletes an item whose set has the member guessed.
func (m *machine) remove(t *rapid.T) {
	sk, member := someKeys.Draw(t, "key"), rapid.IntRange(1, 5).Draw(t, "member")
	err := m.Delete(m.ctx, table.Delete{Key: m.key(sk), If: table.Contains("set", member)})
	has := slices.Contains(m.items[sk].set, member)
	m.expect(t, !has, err)
	if has {
		delete(m.items, sk)
	}
}

// both claims one item and stores another, or neither.
func (m *machine) both(t *rapid.T) {
	sks := rapid.SliceOfNDistinct(someKeys, 2, 2, rapid.ID[string]).Draw(t, "keys")
	guess, item := rapid.Int64Range(0, 3).Draw(t, "guess"), someItems.Draw(t, "item")
	err := m.transact(m.claiming(sks[0], guess, 1), table.Put{Item: item.item(m.suite, sks[1])})
	m.expect(t, !m.holds(sks[0], guess), err)
	if err == nil {
		m.claimed(sks[0], 1)
		m.items[sks[1]] = item
	}
}

func (m *machine) expect(t *rapid.T, refused bool, err error) {
	if refused {
		require.True(t, errors.Is(err, table.ErrConditionFailed), "it should have been refused, got %v", err)
		return
	}
	require.NoError(t, err)
}

// agree compares the whole table with the model.
func (m *machine) agree(t *rapid.T) {
	var want []table.Item
	for _, sk := range slices.Sorted(maps.Keys(m.items)) {
		want = append(want, m.items[sk].item(m.suite, sk))
	}
	var got []table.Item
	for item, err := range table.All(m.ctx, m.Table, table.Query{PK: m.prefix, Consistent: true}) {
		require.NoError(t, err)
		got = append(got, item)
	}
	require.Equal(t, want, got)
}

var model = map[string]func(*suite){
	"RandomOperations": func(s *suite) {
		rapid.Check(s.T, func(t *rapid.T) {
			m := &machine{suite: newSuite(s.T, s.Table), items: map[string]modelItem{}}
			t.Repeat(map[string]func(*rapid.T){
				"put": m.put, "claim": m.claim, "drop": m.drop, "remove": m.remove, "both": m.both, "": m.agree,
			})
			var due []string
			for _, at := range []string{"1", "2"} {
				for _, sk := range slices.Sorted(maps.Keys(m.items)) {
					if m.items[sk].due == at {
						due = append(due, sk)
					}
				}
			}
			m.settlesInAnyOrder(table.Query{Index: table.Due, PK: m.prefix + "#due"}, due)
		})
	},
}
