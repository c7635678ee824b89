package table

// indexPair names the key attributes of an index.
type indexPair struct {
	index  Index
	pk, sk string
}

// indexAttributes are the key attributes of Indexes, in the same order.
var indexAttributes = func() []indexPair {
	pairs := make([]indexPair, len(Indexes))
	for i, x := range Indexes {
		pairs[i].index = x
		pairs[i].pk, pairs[i].sk = string(x)+"_pk", string(x)+"_sk"
	}
	return pairs
}()

// Attributes returns the names of the index's key attributes; for the empty
// Index those of the table.
func (x Index) Attributes() (pk, sk string) {
	for i := range indexAttributes {
		if indexAttributes[i].index == x {
			return indexAttributes[i].pk, indexAttributes[i].sk
		}
	}
	if x == "" {
		return "pk", "sk"
	}
	return string(x) + "_pk", string(x) + "_sk"
}

func (x Index) known() bool {
	for i := range indexAttributes {
		if indexAttributes[i].index == x {
			return true
		}
	}
	return false
}

// Entry returns the item's key in an index, and whether the index contains it,
// which is the case if the item has both attributes.
func (i Item) Entry(x Index) (Key, bool) {
	pk, sk := x.Attributes()
	k := Key{PK: i[pk].str, SK: i[sk].str}
	return k, k.PK != "" && k.SK != ""
}

// EntryItem returns the item that an index holds: its own keys and the index's.
func EntryItem(x Index, entry, key Key) Item {
	pk, sk := x.Attributes()
	return Item{
		"pk": {kind: String, str: key.PK}, "sk": {kind: String, str: key.SK},
		pk: {kind: String, str: entry.PK}, sk: {kind: String, str: entry.SK},
	}
}

// entrySize returns the size of an index's item in bytes.
func entrySize(x Index, entry, key Key) int {
	pk, sk := x.Attributes()
	return len("pksk") + len(key.PK) + len(key.SK) + len(pk) + len(sk) + len(entry.PK) + len(entry.SK)
}
