// Package table is the port to the service's one table: a small typed language
// over keys, items, conditions, updates, queries and transactions, with the
// semantics and limits of DynamoDB. Drivers: package dynamo beside it and the
// embedded server's package pebbletable; package tabletest is the suite both pass.
package table

import (
	"context"
	"errors"
	"fmt"
	"iter"
)

// The errors of every driver. Vendor errors never leave a driver unless they
// are failures of the service itself.
var (
	// ErrNotFound: no item has that key.
	ErrNotFound = errors.New("table: item not found")
	// ErrConditionFailed: a write's condition did not hold; see [ConditionError].
	ErrConditionFailed = errors.New("table: condition failed")
	// ErrConflict: another transaction holds one of the items; try again.
	ErrConflict = errors.New("table: transaction conflict")
	// ErrThrottled: over capacity after the driver's own retries; try again later.
	ErrThrottled = errors.New("table: throttled")
	// ErrLimit: the request breaks a limit of the table (item size, transaction
	// size, key size, empty key); wrapped with what and by how much.
	ErrLimit = errors.New("table: limit exceeded")
	// ErrInvalid: the request makes no sense, or not for the item it meets (adding
	// to a text, an attribute in two actions, a change of a key attribute); wrapped
	// with what. A mistake of the program.
	ErrInvalid = errors.New("table: invalid request")
	// ErrBadCursor: a cursor that this query did not give.
	ErrBadCursor = errors.New("table: bad cursor")
	// ErrNotConfigured: no table is configured (reported by Check).
	ErrNotConfigured = errors.New("table: not configured")
)

// ConditionError is the ErrConditionFailed of a single write. Old is the item
// that stood in the way, nil if there was none.
type ConditionError struct{ Old Item }

// Error says that the condition failed.
func (e *ConditionError) Error() string { return ErrConditionFailed.Error() }

// Is makes errors.Is(err, ErrConditionFailed) hold.
func (e *ConditionError) Is(target error) bool { return target == ErrConditionFailed }

// TransactionError says why a transaction changed nothing. It is
// ErrConditionFailed if any condition failed, else ErrConflict.
type TransactionError struct {
	Reasons []Reason // one for each operation, in order
}

// Reason is one operation's part in a failed transaction.
type Reason struct {
	Err error // nil, ErrConditionFailed, ErrConflict, ErrThrottled, ErrInvalid or ErrLimit
	Old Item  // the item that failed the condition, nil if there was none
}

// Error names the operations at fault.
func (e *TransactionError) Error() string {
	s := "table: transaction cancelled"
	for i, r := range e.Reasons {
		if r.Err != nil {
			s += fmt.Sprintf(" [%d: %v]", i, r.Err)
		}
	}
	return s
}

// Is makes errors.Is work for the reasons.
func (e *TransactionError) Is(target error) bool {
	for _, r := range e.Reasons {
		if r.Err == target {
			// A failed condition is final, so it outranks a conflict.
			return target == ErrConditionFailed || !e.Is(ErrConditionFailed)
		}
	}
	return false
}

// Failed reports whether operation i's condition failed, and the item in its way.
func (e *TransactionError) Failed(i int) (Item, bool) {
	if i >= len(e.Reasons) || !errors.Is(e.Reasons[i].Err, ErrConditionFailed) {
		return nil, false
	}
	return e.Reasons[i].Old, true
}

// Key names an item. Embedded in an item's struct it gives the key attributes.
type Key struct {
	PK string `table:"pk"`
	SK string `table:"sk"`
}

// Index names a secondary index; the empty Index is the table itself. Indexes
// are sparse (only items that carry both key attributes stand in them), hold
// keys and no other attributes, and are eventually consistent.
type Index string

// The indexes of the table: one ordered by time for whatever falls due, four
// for lists. An item's place in an index is a pair of attributes,
// <index>_pk and <index>_sk; embed [DueEntry] or [List1] … [List4] to set it.
const (
	Due    Index = "due"
	ByList Index = "l1"
	ByFlow Index = "l2"
	ByEnv  Index = "l3"
	ByBoth Index = "l4"
)

// Indexes lists every index, for drivers and deployment.
var Indexes = []Index{Due, ByList, ByFlow, ByEnv, ByBoth}

// DueEntry is an item's place in the due index.
type DueEntry struct {
	DuePK string `table:"due_pk,omitempty"`
	DueSK string `table:"due_sk,omitempty"`
}

// ListEntries are an item's places in the list indexes; what is empty is absent.
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

// TTLAttribute holds the Unix second after which an item may be removed. It
// only tidies up: whoever reads compares expiry by itself.
const TTLAttribute = "ttl"

// Item is a stored item: attribute values by name, the keys among them.
type Item map[string]Value

// Key returns the item's key.
func (i Item) Key() Key { return Key{PK: i["pk"].Str(), SK: i["sk"].Str()} }

// Write is one operation of a transaction or a single write: [Put], [Update],
// [Delete] or [Check].
type Write interface {
	// Target returns the key the write is about.
	Target() Key
}

// Put stores an item whole, replacing one of the same key.
type Put struct {
	Item any  // a struct with table tags, or an Item
	If   Cond // nil: always
}

// Update changes attributes of an item, making it if it does not exist.
type Update struct {
	Key Key
	Do  []Action
	If  Cond // nil: always
}

// Delete removes an item; an absent one is fine.
type Delete struct {
	Key Key
	If  Cond // nil: always
}

// Check is a condition on an item that the transaction does not write.
type Check struct {
	Key Key
	If  Cond
}

// Target returns the key of the item to put; the zero Key if it has none.
func (p Put) Target() Key { return keyOf(p.Item) }

// Target returns the key.
func (u Update) Target() Key { return u.Key }

// Target returns the key.
func (d Delete) Target() Key { return d.Key }

// Target returns the key.
func (c Check) Target() Key { return c.Key }

// Query reads items of one partition in order of their sort key.
type Query struct {
	Index      Index  // "" the table itself
	PK         string // the partition of the table or index
	Range      Range  // the zero Range is all
	Reverse    bool   // newest first
	Limit      int    // items read for one page, 0: as many as a page of 1 MB holds
	Start      Cursor // "" from the beginning
	Filter     Cond   // applied after reading; filtered items count as read
	Consistent bool   // tables only
	// Only names the attributes that are wanted, the key aside, which is always
	// returned; none: all. The whole items are read and paid for, and a page holds
	// as many. Tables only.
	Only []string
}

// Cursor is where a query goes on; opaque, valid for the same Query only.
type Cursor string

// Page is one page of a query. Next is empty at the end; an empty page with a
// Next is not the end.
type Page struct {
	Items []Item
	Next  Cursor
}

// ReadOption changes a read.
type ReadOption func(*ReadOptions)

// ReadOptions is what ReadOption functions set; drivers apply them.
type ReadOptions struct {
	Consistent bool
	Only       []string // none: all attributes
}

// NewReadOptions is what opts set. Errors: those of [CheckOnly].
func NewReadOptions(opts []ReadOption) (ReadOptions, error) {
	var o ReadOptions
	for _, opt := range opts {
		opt(&o)
	}
	return o, CheckOnly(o.Only)
}

// Consistent asks for a strongly consistent read, at twice the read units.
func Consistent(o *ReadOptions) { o.Consistent = true }

// Table is the port. All methods are safe for concurrent use and bounded by ctx.
// Every driver enforces the limits in limits.go and reports the capacity it
// consumed to the context's [Meter].
type Table interface {
	// Get returns the item, or ErrNotFound.
	Get(ctx context.Context, key Key, opts ...ReadOption) (Item, error)
	// BatchGet returns those items that exist, in the order of keys (any
	// number; the driver splits them). Duplicate keys are ErrLimit.
	BatchGet(ctx context.Context, keys []Key, opts ...ReadOption) ([]Item, error)
	// Put stores an item. ErrConditionFailed as *ConditionError.
	Put(ctx context.Context, put Put) error
	// Update changes an item and returns all its new attributes.
	// ErrConditionFailed as *ConditionError.
	Update(ctx context.Context, update Update) (Item, error)
	// Delete removes an item. ErrConditionFailed as *ConditionError.
	Delete(ctx context.Context, del Delete) error
	// BatchWrite applies unconditional Puts and Deletes, any number, in no
	// order and not atomically: after an error some may have been applied.
	BatchWrite(ctx context.Context, writes []Write) error
	// Transact applies up to 100 writes of distinct items, all or none.
	// A cancelled transaction is a *TransactionError.
	Transact(ctx context.Context, writes ...Write) error
	// Query returns one page.
	Query(ctx context.Context, q Query) (Page, error)
	// Check reads the table's state: nil, ErrNotConfigured, or why it is not
	// reachable. For the health report.
	Check(ctx context.Context) error
}

// All reads a query to its end, page by page.
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

// Count counts the items of a query.
func Count(ctx context.Context, t Table, q Query) (n int64, err error) {
	for _, err := range All(ctx, t, q) {
		if err != nil {
			return 0, err
		}
		n++
	}
	return n, nil
}

// Load gets an item into a struct of type T.
func Load[T any](ctx context.Context, t Table, key Key, opts ...ReadOption) (T, error) {
	var v T
	item, err := t.Get(ctx, key, opts...)
	if err != nil {
		return v, err
	}
	return v, Unmarshal(item, &v)
}

// Decode turns items into structs of type T.
func Decode[T any](items []Item) ([]T, error) {
	out := make([]T, len(items))
	for i, item := range items {
		if err := Unmarshal(item, &out[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}
