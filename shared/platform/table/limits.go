package table

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// DynamoDB's limits, from its developer guide, "Quotas in Amazon DynamoDB" and
// "Constraints in Amazon DynamoDB".
const (
	MaxItemBytes        = 400 << 10 // an item, names and values
	MaxPartitionKey     = 2048      // bytes
	MaxSortKey          = 1024      // bytes
	MaxTransactItems    = 100       // writes in a transaction
	MaxTransactBytes    = 4 << 20   // items in a transaction together
	MaxBatchGet         = 100       // keys of one BatchGetItem; drivers split
	MaxBatchWrite       = 25        // writes of one BatchWriteItem; drivers split
	MaxPageBytes        = 1 << 20   // items read for a page of a query, before the filter
	MaxIn               = 100       // values of an In
	MaxDigits           = 38        // significant digits of a number
	MaxDepth            = 32        // nesting of lists and maps
	MaxExpressionBytes  = 4 << 10   // text of an expression
	MaxExpressionValues = 2 << 20   // bytes of an expression's values
	MaxOperators        = 300       // operators and functions in an expression
)

// Size returns the item's size in bytes as DynamoDB counts it: the UTF-8 of
// names and values.
func (i Item) Size() int {
	n := 0
	for name, v := range i {
		n += len(name) + v.Size()
	}
	return n
}

// Size returns the value's size in bytes as DynamoDB counts it ("Item sizes and
// formats" in its developer guide): a number takes a byte for two digits and
// one more; a list or map takes 3 bytes and one for each member.
func (v Value) Size() int {
	switch v.kind {
	case String, Binary:
		return len(v.str)
	case Number:
		return numberSize(v.str)
	case Bool, Null:
		return 1
	case ListKind:
		n := 3
		for _, m := range v.List() {
			n += 1 + m.Size()
		}
		return n
	case MapKind:
		n := 3
		for name, m := range v.Map() {
			n += 1 + len(name) + m.Size()
		}
		return n
	case StringSet:
		n := 0
		for _, m := range v.Members() {
			n += len(m)
		}
		return n
	case NumberSet:
		n := 0
		for _, m := range v.Members() {
			n += numberSize(m)
		}
		return n
	}
	return 0
}

func numberSize(s string) int {
	if isSmallInt(s) {
		digits := strings.TrimRight(strings.TrimPrefix(s, "-"), "0")
		return (len(digits)+1)/2 + 1 + len(s) - len(strings.TrimPrefix(s, "-"))
	}
	negative, digits, _, ok := parseDecimal(s)
	if !ok || digits == "" {
		return 1
	}
	n := (len(digits)+1)/2 + 1
	if negative {
		n++
	}
	return n
}

// CheckKey returns ErrLimit if a part of the key is empty or too long.
func CheckKey(k Key) error {
	return checkPair("pk", k.PK, "sk", k.SK)
}

func checkPair(pkName, pk, skName, sk string) error {
	switch {
	case pk == "" || sk == "":
		return fmt.Errorf("%w: empty key (%s, %s)", ErrLimit, pkName, skName)
	case len(pk) > MaxPartitionKey:
		return fmt.Errorf("%w: %s of %d bytes, at most %d", ErrLimit, pkName, len(pk), MaxPartitionKey)
	case len(sk) > MaxSortKey:
		return fmt.Errorf("%w: %s of %d bytes, at most %d", ErrLimit, skName, len(sk), MaxSortKey)
	case !utf8.ValidString(pk) || !utf8.ValidString(sk):
		return fmt.Errorf("%w: key (%s, %s) is not UTF-8", ErrInvalid, pkName, skName)
	}
	return nil
}

// CheckItem checks a whole item: its keys, its index keys, its size, its
// numbers and its nesting. It returns the size in bytes. Errors are ErrLimit or
// ErrInvalid.
func CheckItem(item Item) (size int, err error) {
	if item["pk"].kind != String || item["sk"].kind != String {
		return 0, fmt.Errorf("%w: empty key (pk, sk)", ErrLimit)
	}
	if err := CheckKey(item.Key()); err != nil {
		return 0, err
	}
	for i := range indexAttributes {
		if err := checkEntry(item, &indexAttributes[i]); err != nil {
			return 0, err
		}
	}
	for name, v := range item {
		if name == "" {
			return 0, fmt.Errorf("%w: attribute without a name", ErrInvalid)
		}
		if err := checkValue(v, 0); err != nil {
			return 0, fmt.Errorf("attribute %s: %w", name, err)
		}
		size += len(name) + v.Size()
	}
	if size > MaxItemBytes {
		return size, fmt.Errorf("%w: item of %d bytes, at most %d", ErrLimit, size, MaxItemBytes)
	}
	return size, nil
}

// checkEntry checks the attributes of an index like those of a key. An item
// with only one of the pair is not in the index.
func checkEntry(item Item, names *indexPair) error {
	pk, hasPK := item[names.pk]
	sk, hasSK := item[names.sk]
	switch {
	case !hasPK && !hasSK:
		return nil
	case hasPK && pk.kind != String || hasSK && sk.kind != String:
		return fmt.Errorf("%w: index key (%s, %s) is not a string", ErrInvalid, names.pk, names.sk)
	case !hasPK:
		pk.str = "-"
	case !hasSK:
		sk.str = "-"
	}
	return checkPair(names.pk, pk.str, names.sk, sk.str)
}

func checkValue(v Value, depth int) error {
	switch v.kind {
	case None:
		return fmt.Errorf("%w: no value", ErrInvalid)
	case String:
		if !utf8.ValidString(v.str) {
			return fmt.Errorf("%w: string is not UTF-8", ErrInvalid)
		}
	case Number:
		return checkDecimal(v.str)
	case ListKind, MapKind:
		if depth++; depth > MaxDepth {
			return fmt.Errorf("%w: nested deeper than %d", ErrLimit, MaxDepth)
		}
		for _, m := range v.List() {
			if err := checkValue(m, depth); err != nil {
				return err
			}
		}
		for _, m := range v.Map() {
			if err := checkValue(m, depth); err != nil {
				return err
			}
		}
	case NumberSet:
		for _, m := range v.Members() {
			if err := checkDecimal(m); err != nil {
				return err
			}
		}
	}
	return nil
}
