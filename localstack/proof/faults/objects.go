package faults

import (
	"context"
	"errors"
	"io"

	"millrace/shared/platform/blob"
	"millrace/shared/platform/bus"
)

// Objects returns the process's view of an object store.
func (p *Process) Objects(inner blob.Store) blob.Store { return &faultyObjects{inner, p} }

type faultyObjects struct {
	blob.Store // for methods that the engine does not use
	p          *Process
}

// Put stores an object, or fails.
func (o *faultyObjects) Put(ctx context.Context, key string, body io.Reader, size int64, opts blob.PutOptions) (blob.Object, error) {
	f := o.p.enter(ctx, Objects, true, "PutObject", key)
	if f.before != nil {
		return blob.Object{}, f.before
	}
	obj, err := o.Store.Put(ctx, key, body, size, opts)
	return obj, errors.Join(err, f.after)
}

// Get opens an object, or fails.
func (o *faultyObjects) Get(ctx context.Context, key string, rng *blob.Range) (io.ReadCloser, blob.Object, error) {
	f := o.p.enter(ctx, Objects, false, "GetObject", key)
	if err := errors.Join(f.before, f.after); err != nil {
		return nil, blob.Object{}, err
	}
	return o.Store.Get(ctx, key, rng)
}

// Head describes an object, or fails.
func (o *faultyObjects) Head(ctx context.Context, key string) (blob.Object, error) {
	f := o.p.enter(ctx, Objects, false, "HeadObject", key)
	if err := errors.Join(f.before, f.after); err != nil {
		return blob.Object{}, err
	}
	return o.Store.Head(ctx, key)
}

// Delete removes objects, or fails.
func (o *faultyObjects) Delete(ctx context.Context, keys ...string) error {
	if len(keys) == 0 {
		return nil
	}
	f := o.p.enter(ctx, Objects, true, "DeleteObjects", keys[0])
	if f.before != nil {
		return f.before
	}
	return errors.Join(o.Store.Delete(ctx, keys...), f.after)
}

// Bus returns the process's view of a bus.
func (p *Process) Bus(inner bus.Bus) bus.Bus { return &faultyBus{inner, p} }

type faultyBus struct {
	bus.Bus
	p *Process
}

// Publish publishes events, or fails.
func (b *faultyBus) Publish(ctx context.Context, events ...bus.Event) error {
	f := b.p.enter(ctx, Bus, true, "Publish", "")
	if f.before != nil {
		return f.before
	}
	return errors.Join(b.Bus.Publish(ctx, events...), f.after)
}
