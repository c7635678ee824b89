// Package fleet runs functions as Lambda does: in processes that receive their
// events from an emulated Lambda Runtime API, one event at a time, with another
// process if all are busy, with separate processes for each tenant if the
// function requires it, and with a time-out.
package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"millrace/localstack/runtimeapi"
)

// startPatience is how long a process may take to request its first event.
// Lambda allows 10 s, but does not run on a busy laptop.
const startPatience = 30 * time.Second

// warm is the number of idle processes of a function that are kept.
const warm = 4

// Errors of an invocation that was not started.
var (
	ErrUnknown  = errors.New("no such function")
	ErrNoTenant = errors.New("the function is isolated by tenant and the invocation names none")
	ErrClosed   = errors.New("the functions have been stopped")
)

// Function is one function.
type Function struct {
	Name    string
	ARN     string
	Command []string               // the program, which speaks the Runtime API
	Code    func(dir string) error // lays out the code in an empty folder; nil if there is only the program
	Env     map[string]string      // the whole environment of its processes, except Lambda's variables
	Timeout time.Duration          // of one event
	Memory  int                    // in MB, which its processes are told and nothing limits; 0 for none
	Tenants bool                   // each process serves only one tenant
}

// Fleet runs functions. Create it with New. It is safe for concurrent use.
type Fleet struct {
	functions map[string]Function
	dir       string
	log       func(function string) io.Writer
	running   context.Context
	stop      context.CancelCauseFunc

	mu      sync.Mutex
	all     map[*environment]bool
	idle    map[string][]*environment // by key
	pending sync.WaitGroup            // events in flight
}

// New returns a fleet of functions. Their folders are created in dir, and their
// output goes to log, which may be nil. No process starts before the first
// event.
func New(dir string, log func(function string) io.Writer, functions ...Function) *Fleet {
	f := &Fleet{
		functions: map[string]Function{}, dir: dir, log: log,
		all: map[*environment]bool{}, idle: map[string][]*environment{},
	}
	for _, function := range functions {
		f.functions[function.Name] = function
	}
	f.running, f.stop = context.WithCancelCause(context.Background())
	return f
}

// Names returns the names of the functions.
func (f *Fleet) Names() []string { return slices.Sorted(maps.Keys(f.functions)) }

// Find returns the function with a name.
func (f *Fleet) Find(name string) (Function, bool) {
	function, found := f.functions[name]
	return function, found
}

// Invoke invokes a function with an event. tenant is "" unless the function is
// isolated by tenant. As on Lambda, the function continues if ctx ends; only
// its answer is lost. Errors: ErrUnknown, ErrNoTenant, ErrClosed;
// *runtimeapi.Fault of the function; ctx's.
func (f *Fleet) Invoke(ctx context.Context, name, tenant string, payload []byte) (*runtimeapi.Answer, error) {
	function, found := f.functions[name]
	if !found {
		return nil, fmt.Errorf("%w: %s", ErrUnknown, name)
	}
	if function.Tenants && tenant == "" {
		return nil, fmt.Errorf("%w: %s", ErrNoTenant, name)
	}
	if err := f.admit(); err != nil {
		return nil, err
	}
	type result struct {
		answer *runtimeapi.Answer
		err    error
	}
	results := make(chan result)
	go func() {
		answer, err := f.run(function, tenant, payload)
		select {
		case results <- result{answer, err}:
		case <-ctx.Done():
			if err == nil {
				_ = answer.Body.Close() // nobody reads it
			}
		}
	}()
	select {
	case r := <-results:
		return r.answer, r.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// admit counts an event in flight.
func (f *Fleet) admit() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.running.Err() != nil {
		return ErrClosed
	}
	f.pending.Add(1)
	return nil
}

// run passes the event to an environment, which is busy until it requests
// another event, possibly some time after its answer.
func (f *Fleet) run(function Function, tenant string, payload []byte) (*runtimeapi.Answer, error) {
	e, err := f.take(function, tenant)
	if err != nil {
		f.pending.Done()
		return nil, err
	}
	event := runtimeapi.Event{Payload: payload, Timeout: cmp.Or(function.Timeout, runtimeapi.DefaultTimeout), Tenant: tenant, ARN: function.ARN}
	alive, cancel := context.WithTimeoutCause(e.alive, event.Timeout, timedOut(event.Timeout))
	answer, err := e.api.Invoke(alive, event)
	go func() {
		defer f.pending.Done()
		defer cancel()
		if e.api.Ready(alive) != nil {
			f.drop(e) // it is dead or late
			return
		}
		f.free(e)
	}()
	return answer, err
}

func timedOut(after time.Duration) *runtimeapi.Fault {
	return &runtimeapi.Fault{Type: "Sandbox.Timedout", Message: fmt.Sprintf("Task timed out after %.2f seconds", after.Seconds())}
}

// take returns an idle environment, or a new one.
func (f *Fleet) take(function Function, tenant string) (*environment, error) {
	k := key(function.Name, tenant)
	f.mu.Lock()
	if list := f.idle[k]; len(list) > 0 {
		e := list[len(list)-1]
		f.idle[k] = list[:len(list)-1]
		f.mu.Unlock()
		return e, nil
	}
	f.mu.Unlock()
	e, err := f.start(function, tenant)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	closed := f.running.Err() != nil
	f.all[e] = true
	f.mu.Unlock()
	if closed {
		f.drop(e)
		return nil, ErrClosed
	}
	ctx, cancel := context.WithTimeoutCause(e.alive, startPatience, errors.New("the process asked for no event in time"))
	defer cancel()
	if err := e.api.Ready(ctx); err != nil {
		f.drop(e)
		return nil, err
	}
	return e, nil
}

func key(function, tenant string) string { return function + " " + tenant }

// free makes an environment idle, or ends it if there are enough idle ones.
func (f *Fleet) free(e *environment) {
	f.mu.Lock()
	if f.running.Err() == nil && len(f.idle[e.key]) < warm && e.alive.Err() == nil {
		f.idle[e.key] = append(f.idle[e.key], e)
		f.mu.Unlock()
		return
	}
	f.mu.Unlock()
	f.drop(e)
}

// drop ends an environment.
func (f *Fleet) drop(e *environment) {
	f.mu.Lock()
	delete(f.all, e)
	f.idle[e.key] = slices.DeleteFunc(f.idle[e.key], func(o *environment) bool { return o == e })
	f.mu.Unlock()
	e.end()
}

// Idle returns the number of idle processes of a function and a tenant.
func (f *Fleet) Idle(function, tenant string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.idle[key(function, tenant)])
}

// Close kills all processes, waits until they have exited and removes their
// folders.
func (f *Fleet) Close() error {
	f.stop(ErrClosed)
	f.mu.Lock()
	all := slices.Collect(maps.Keys(f.all))
	f.mu.Unlock()
	for _, e := range all {
		f.drop(e)
	}
	f.pending.Wait()
	return os.RemoveAll(f.dir)
}
