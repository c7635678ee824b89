package worker_test

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"millrace/shared/platform/blob"
	"millrace/shared/platform/table"
	"millrace/shared/run/engine"
	"millrace/shared/run/runstate"
)

// unreadable is a table whose reads of single items can be made to fail.
type unreadable struct {
	table.Table
	mu    sync.Mutex
	fails func(table.Key) error // nil: none does
}

func (u *unreadable) set(fails func(table.Key) error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.fails = fails
}

func (u *unreadable) err(keys ...table.Key) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, k := range keys {
		if u.fails == nil {
			return nil
		}
		if err := u.fails(k); err != nil {
			return err
		}
	}
	return nil
}

func (u *unreadable) Get(ctx context.Context, key table.Key, opts ...table.ReadOption) (table.Item, error) {
	if err := u.err(key); err != nil {
		return nil, err
	}
	return u.Table.Get(ctx, key, opts...)
}

func (u *unreadable) BatchGet(ctx context.Context, keys []table.Key, opts ...table.ReadOption) ([]table.Item, error) {
	if err := u.err(keys...); err != nil {
		return nil, err
	}
	return u.Table.BatchGet(ctx, keys, opts...)
}

// unwritable is a table whose updates can be made to fail, and that calls a
// hook after them.
type unwritable struct {
	table.Table
	fails func(ctx context.Context, u table.Update) error // nil: none does
	hook  func(u table.Update)                            // nil: none
}

func (w *unwritable) Update(ctx context.Context, u table.Update) (table.Item, error) {
	if w.fails != nil {
		if err := w.fails(ctx, u); err != nil {
			return nil, err
		}
	}
	item, err := w.Table.Update(ctx, u)
	if err == nil && w.hook != nil {
		w.hook(u)
	}
	return item, err
}

// sets returns what an update sets an attribute to, "" if it does not.
func sets(u table.Update, attr string) string {
	for _, a := range u.Do {
		if set, ok := a.(table.ActSet); ok && set.Attr == attr {
			if s := set.Value.Str(); s != "" {
				return s
			}
			return "set"
		}
	}
	return ""
}

// finishes reports whether an update ends a node.
func finishes(u table.Update) bool { return engine.Status(sets(u, runstate.NodeStatus)).Terminal() }

// renews reports whether an update renews a lease.
func renews(u table.Update) bool {
	return sets(u, runstate.NodeLease) != "" && sets(u, runstate.NodeStatus) == "" && sets(u, runstate.NodeNonce) == ""
}

// errHung is the error of a request that gets no response until its caller
// gives up.
var errHung = errors.New("no response")

// objects is an object store that can be made to fail, and counts.
type objects struct {
	blob.Store
	mu    sync.Mutex
	puts  int
	fails func(key string) error // nil: none does; a Put that fails with errHung gets no response
	hook  func(key string)       // after a Put; nil: none
}

func (o *objects) set(fails func(key string) error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.fails = fails
}

func (o *objects) err(key string, puts int) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.puts += puts
	if o.fails == nil {
		return nil
	}
	return o.fails(key)
}

// stored returns the number of stored objects.
func (o *objects) stored() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.puts
}

func (o *objects) Put(ctx context.Context, key string, body io.Reader, size int64, opts blob.PutOptions) (blob.Object, error) {
	if err := o.err(key, 1); err != nil {
		if errors.Is(err, errHung) {
			<-ctx.Done()
		}
		return blob.Object{}, err
	}
	obj, err := o.Store.Put(ctx, key, body, size, opts)
	if err == nil && o.hook != nil {
		o.hook(key)
	}
	return obj, err
}

func (o *objects) Get(ctx context.Context, key string, rng *blob.Range) (io.ReadCloser, blob.Object, error) {
	if err := o.err(key, 0); err != nil {
		return nil, blob.Object{}, err
	}
	return o.Store.Get(ctx, key, rng)
}

// until returns an error until a time.
func until(t time.Time, err error) error {
	if time.Now().Before(t) {
		return err
	}
	return nil
}
