// Package table is the port to the service's only table: a small typed language
// of keys, items, conditions, updates, queries and transactions, with the
// semantics and limits of DynamoDB. The drivers are package dynamo and the
// embedded server's package pebbletable. Package tabletest is the conformance
// suite of both.
package table

import (
	"context"
	"errors"
	"fmt"
	"iter"
)

// Errors that every driver returns. Drivers pass on vendor errors only for
// failures of the service itself.
var (
	// ErrNotFound means that no item has the key.
	ErrNotFound = errors.New("table: item not found")
	// ErrConditionFailed means that a write's condition did not hold; see
	// [ConditionError].
	ErrConditionFailed = errors.New("table: condition failed")
	// ErrConflict means that another transaction holds one of the items. Try
	// again.
	ErrConflict = errors.New("table: transaction conflict")
	// ErrThrottled means that the table is over capacity even after the driver's
	// retries. Try again later.
	ErrThrottled = errors.New("table: throttled")
	// ErrLimit means that the request exceeds a limit of the table (item size,
	// transaction size, key size, empty key). It is wrapped with the limit and the
	// excess.
	ErrLimit = errors.New("table: limit exceeded")
	// ErrInvalid means that the request is malformed or does not fit the stored
	// item (adding to a text, an attribute in two actions, a change of a key
	// attribute). It is wrapped with the reason. It is a programming error.
	ErrInvalid = errors.New("table: invalid request")
	// ErrBadCursor means that the cursor was not returned by this query.
	ErrBadCursor = errors.New("table: bad cursor")
	// ErrNotConfigured means that no table is configured. Check returns it.
	ErrNotConfigured = errors.New("table: not configured")
)

// ConditionError is the ErrConditionFailed of a single write. Old is the stored
// item that failed the condition, nil if there was none.
type ConditionError struct{ Old Item }

// Error reports that the condition failed.
func (e *ConditionError) Error() string { return ErrConditionFailed.Error() }

// Is makes errors.Is(err, ErrConditionFailed) hold.
func (e *ConditionError) Is(target error) bool { return target == ErrConditionFailed }

// TransactionError reports why a transaction changed nothing. It is
// ErrConditionFailed if any condition failed, otherwise ErrConflict.
type TransactionError struct {
	Reasons []Reason // one for each operation, in order
}

// Reason is the result of one operation in a failed transaction.
type Reason struct {
	Err error // nil, ErrConditionFailed, ErrConflict, ErrThrottled, ErrInvalid or ErrLimit
	Old Item  // the item that failed the condition, nil if there was none
}

// Error names the operations that failed.
func (e *TransactionError) Error() string {
	s := "table: transaction cancelled"
	for i, r := range e.Reasons {
		if r.Err != nil {
			s += fmt.Sprintf(" [%d: %v]", i, r.Err)
		}
	}
	return s
}

// Is makes errors.Is match the reasons.
func (e *TransactionError) Is(target error) bool {
	for _, r := range e.Reasons {
		if r.Err == target {
			// A failed condition is final, so it outranks a conflict.
			return target == ErrConditionFailed || !e.Is(ErrConditionFailed)
		}
	}
	return false
}

// Failed reports whether the condition of operation i failed, and returns the
// stored item.
func (e *TransactionError) Failed(i int) (Item, bool) {
	if i >= len(e.Reasons) || !errors.Is(e.Reasons[i].Err, ErrConditionFailed) {
		return nil, false
	}
	return e.Reasons[i].Old, true
}

// Key identifies an item. Embedded in an item's struct it provides the key
// attributes.
type Key struct {
	PK string `table:"pk"`
	SK string `table:"sk"`
}

// Index names a secondary index; the empty Index is the table itself. Indexes
// are sparse (they contain only items with both key attributes), hold only
// keys, and are eventually consistent.
type Index string

// The indexes of the table: one ordered by due time, four for lists. An item's
// key in an index is the pair of attributes <index>_pk and <index>_sk; embed
// [DueEntry] or [List1] … [List4] to set it.
const (
	Due    Index = "due"
	ByList Index = "l1"
	ByFlow Index = "l2"
	ByEnv  Index = "l3"
	ByBoth Index = "l4"
)

// Indexes lists every index, for drivers and deployment.
var Indexes = []Index{Due, ByList, ByFlow, ByEnv, ByBoth}

// DueEntry is an item's key in the due index.
type DueEntry struct {
	DuePK string `table:"due_pk,omitempty"`
	DueSK string `table:"due_sk,omitempty"`
}

// ListEntries are an item's keys in the list indexes. Empty ones are not
// stored.
type ListEntries struct {
	L1PK string `table:"l1_pk,omitempty"`
	L1SK string `table:"l1_sk,omitempty"`
	L2PK string `table:"l2_pk,omitempty"`
	L2SK string `table:"l2_sk,omitempty"`
	L3PK string `table:"l3_pk,omitempty"`
	L3SK string `table:"l3_sk,omitempty"`
	L4PK string `table:"l4_pk,omitempty"`
	L4SK string `table:"l4_sk,omitempty"`
}

// TTLAttribute holds the Unix second after which an item may be removed.
// Removal may come late, so readers must check expiry themselves.
const TTLAttribute = "ttl"

// Item is a stored item: attribute values by name, including the key's.
type Item map[string]Value

// Key returns the item's key.
func (i Item) Key() Key { return Key{PK: i["pk"].Str(), SK: i["sk"].Str()} }

// Write is one operation of a transaction or a single write: [Put], [Update],
// [Delete] or [Check].
type Write interface {
	// Target returns the key of the written or checked item.
	Target() Key
}

// Put stores a whole item, replacing an existing one with the same key.
type Put struct {
	Item any  // a struct with table tags, or an Item
	If   Cond // nil: always
}

// Update changes attributes of an item and creates it if it does not exist.
type Update struct {
	Key Key
	Do  []Action
	If  Cond // nil: always
}

// Delete removes an item. A missing item is not an error.
type Delete struct {
	Key Key
	If  Cond // nil: always
}

// Check is a condition on an item that the transaction does not write.
type Check struct {
	Key Key
	If  Cond
}

// Target returns the key of the item, or the zero Key if it has none.
func (p Put) Target() Key { return keyOf(p.Item) }

// Target returns the key.
func (u Update) Target() Key { return u.Key }

// Target returns the key.
func (d Delete) Target() Key { return d.Key }

// Target returns the key.
func (c Check) Target() Key { return c.Key }

// Query reads items of one partition in order of their sort key.
type Query struct {
	Index      Index  // "" means the table itself
	PK         string // the partition of the table or index
	Range      Range  // the zero Range contains every key
	Reverse    bool   // newest first
	Limit      int    // items to read for one page; 0: as many as a page of 1 MB holds
	Start      Cursor // "" from the beginning
	Filter     Cond   // applied after reading; filtered items count as read
	Consistent bool   // tables only
	// Only names the attributes to return besides the key's; empty means all.
	// Reads and page sizes are those of the whole items. Tables only.
	Only []string
}

// Cursor is the position where a query continues. It is opaque and valid only
// for the same Query.
type Cursor string

// Page is one page of a query. Next is empty after the last page; an empty page
// with a Next is not the last.
type Page struct {
	Items []Item
	Next  Cursor
}

// ReadOption changes a read.
type ReadOption func(*ReadOptions)

// ReadOptions is set by ReadOption functions and applied by drivers.
type ReadOptions struct {
	Consistent bool
	Only       []string // empty: all attributes
}

// NewReadOptions applies opts. Errors: those of [CheckOnly].
func NewReadOptions(opts []ReadOption) (ReadOptions, error) {
	var o ReadOptions
	for _, opt := range opts {
		opt(&o)
	}
	return o, CheckOnly(o.Only)
}

// Consistent requests a strongly consistent read, at twice the read units.
func Consistent(o *ReadOptions) { o.Consistent = true }

// Table is the port. All methods are safe for concurrent use and bounded by ctx.
// Every driver enforces the limits in limits.go and reports the capacity it
// consumed to the context's [Meter].
type Table interface {
	// Get returns the item, or ErrNotFound.
	Get(ctx context.Context, key Key, opts ...ReadOption) (Item, error)
	// BatchGet returns the existing items, in the order of keys (any number; the
	// driver splits them). Duplicate keys are ErrLimit.
	BatchGet(ctx context.Context, keys []Key, opts ...ReadOption) ([]Item, error)
	// Put stores an item. A failed condition is a *ConditionError.
	Put(ctx context.Context, put Put) error
	// Update changes an item and returns all its new attributes. A failed
	// condition is a *ConditionError.
	Update(ctx context.Context, update Update) (Item, error)
	// Delete removes an item. A failed condition is a *ConditionError.
	Delete(ctx context.Context, del Delete) error
	// BatchWrite applies any number of unconditional Puts and Deletes, in no
	// particular order and not atomically: after an error some may have been
	// applied.
	BatchWrite(ctx context.Context, writes []Write) error
	// Transact applies up to 100 writes of distinct items, all or none. A
	// cancelled transaction is a *TransactionError.
	Transact(ctx context.Context, writes ...Write) error
	// Query returns one page.
	Query(ctx context.Context, q Query) (Page, error)
	// Check tests whether the table is reachable, for health reports. It returns
	// nil, ErrNotConfigured or the reason.
	Check(ctx context.Context) error
}

// All iterates over all items of a query, page by page.
func All(ctx context.Context, t Table, q Query) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		for {
			page, err := t.Query(ctx, q)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, item := range page.Items {
				if !yield(item, nil) {
					return
				}
			}
			if page.Next == "" {
				return
			}
			q.Start = page.Next
		}
	}
}

// Count returns the number of items of a query.
func Count(ctx context.Context, t Table, q Query) (n int64, err error) {
	for _, err := range All(ctx, t, q) {
		if err != nil {
			return 0, err
		}
		n++
	}
	return n, nil
}

// Load reads an item into a struct of type T.
func Load[T any](ctx context.Context, t Table, key Key, opts ...ReadOption) (T, error) {
	var v T
	item, err := t.Get(ctx, key, opts...)
	if err != nil {
		return v, err
	}
	return v, Unmarshal(item, &v)
}

// Decode decodes items into structs of type T.
func Decode[T any](items []Item) ([]T, error) {
	out := make([]T, len(items))
	for i, item := range items {
		if err := Unmarshal(item, &out[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}
