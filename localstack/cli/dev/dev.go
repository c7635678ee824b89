// Package dev deploys a folder at each save and runs its flows at a key press.
package dev

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"millrace/localstack/cli/flows"
	"millrace/localstack/cli/output"
	"millrace/localstack/cli/python"
	"millrace/localstack/cli/runs"
	"millrace/localstack/client"
)

// Options configures [Run].
type Options struct {
	Dir     string // absolute
	API     *client.Client
	Library *python.Library
	Out     *output.Printer
	// Keys receives the keys that the user presses; nil if there is no terminal.
	Keys <-chan byte
	// Open opens a URL in a browser.
	Open func(url string) error
}

// loop is the state of [Run]. Only Run's goroutine changes it and prints.
type loop struct {
	Options
	runtime   flows.Runtime
	collector *flows.Collector
	abandon   context.CancelFunc // ends the collector
	log       printing           // output of the collector
	slow      <-chan time.Time   // ends the time in which an import is usual

	hash, file string // the deployed code's hash; the file that was saved last
	flows      []flows.Flow
	wrong      bool   // the last save was not deployed
	busy       bool   // a save is being deployed
	stuck      bool   // its import takes long, which was said
	next       *save  // is deployed instead of it
	waiting    byte   // key to handle when the deployment has ended
	flow       string // to run

	live    *runs.Live
	states  chan client.Run // states of the displayed run
	quit    context.CancelFunc
	unwatch context.CancelFunc
}

// outcome is the result of deploying a save.
type outcome struct {
	save
	code  *flows.Code
	lines []string
	err   error
}

// Run deploys the folder now and at each save until ctx ends or q is pressed. Errors
// in the code are printed, and Run continues. It returns an error if the folder cannot
// be watched, Python does not start, or the server does not report its runtime.
func Run(ctx context.Context, o Options) error {
	ctx, quit := context.WithCancel(ctx)
	defer quit()
	l := &loop{Options: o, quit: quit, unwatch: func() {}, log: printing{make(chan []byte), ctx.Done()}}
	saves, err := watch(ctx, o.Dir)
	if err != nil {
		return err
	}
	if l.runtime, err = flows.RuntimeOf(ctx, o.API); err != nil {
		return err
	}
	if err := l.prepare(ctx); err != nil {
		return err
	}
	done := make(chan outcome)
	l.begin(ctx, save{at: time.Now()}, done)
	for {
		taken := saves
		if l.busy && !l.stuck {
			taken = nil
		}
		select {
		case <-ctx.Done():
			l.unwatch()
			if l.busy {
				<-done
			}
			_ = l.collector.Close() // killed with ctx
			return nil
		case s, ok := <-taken:
			if !ok {
				<-ctx.Done()
				continue
			}
			if l.busy {
				l.replace(s)
				continue
			}
			l.begin(ctx, s, done)
		case <-l.slow:
			l.explain()
		case text := <-l.log.written:
			_, _ = l.Out.Direct().Write(text) // errors are ignored as in Printf
			l.interrupted()
		case made := <-done:
			l.busy, l.stuck, l.slow = false, false, nil
			if ctx.Err() != nil {
				continue // closing caused the error
			}
			if err := l.end(ctx, made); err != nil {
				return err
			}
			if l.next != nil {
				l.begin(ctx, *l.next, done)
				l.next = nil
			}
		case key := <-l.Keys:
			l.press(ctx, key)
		case run := <-l.states:
			l.live.Show(run)
		}
	}
}

// say prints a line below the table of the displayed run.
func (l *loop) say(format string, args ...any) {
	l.Out.Printf("%s %s\n", time.Now().Format(time.TimeOnly), fmt.Sprintf(format, args...))
	l.interrupted()
}

// interrupted must be called after output that is not of the displayed run.
func (l *loop) interrupted() {
	if l.live != nil {
		l.live.Interrupted()
	}
}

// prepare starts the collector of the next save.
func (l *loop) prepare(ctx context.Context) (err error) {
	ctx, l.abandon = context.WithCancel(ctx)
	l.collector, err = flows.NewCollector(ctx, l.Library, l.Dir, l.log)
	return err
}

func (l *loop) begin(ctx context.Context, s save, done chan<- outcome) {
	l.busy, l.slow = true, time.After(usual)
	hash, collector := l.hash, l.collector
	go func() {
		made := outcome{save: s}
		made.code, made.err = collector.Collect(l.Dir, l.runtime, true)
		if made.err == nil && made.code.Hash() != hash {
			made.lines, made.err = deploy(ctx, l.API, made.code)
		}
		done <- made
	}()
}

// end prints the result of a save and prepares for the next one.
func (l *loop) end(ctx context.Context, made outcome) (err error) {
	took := time.Since(made.at).Round(time.Millisecond)
	l.abandon() // of a process that has ended
	switch {
	case l.next != nil && errors.Is(made.err, context.Canceled): // it was replaced
	case made.err != nil:
		l.wrong = true
		l.say("%s", made.err)
	case made.code.Hash() == l.hash && l.wrong:
		l.wrong = false
		l.say("as it is deployed: %s", version(made.code))
	case made.code.Hash() != l.hash:
		l.wrong, l.hash, l.flows = false, made.code.Hash(), made.code.Flows
		for _, line := range made.lines {
			l.say("%s in %s", line, took)
		}
	}
	if made.path != "" {
		l.file = made.path
	}
	l.choose()
	if err := l.prepare(ctx); err != nil {
		return err
	}
	if l.next != nil { // a key waits for it, too
		return nil
	}
	if key := l.waiting; key != 0 {
		l.waiting = 0
		l.press(ctx, key)
	}
	return nil
}

// version returns the flow version under which the code is deployed.
func version(code *flows.Code) string { return "dev-" + code.Hash() }

// start displays a run that was started or retried, instead of the previous one.
func (l *loop) start(ctx context.Context, run client.Run, err error) {
	if err != nil {
		l.say("%s", message(err))
		return
	}
	l.unwatch()
	l.say("%s %s  %s", run.FlowName, run.FlowVersion, run.Slug)
	l.live = runs.NewLive(l.Out)
	states := make(chan client.Run)
	l.states = states
	ctx, l.unwatch = context.WithCancel(ctx)
	go func() {
		// The server prints its own errors.
		_ = runs.Follow(ctx, l.API, run.RunID, func(run client.Run) {
			select {
			case states <- run:
			case <-ctx.Done():
			}
		})
	}()
}

// message returns the server's message, or the error's own.
func message(err error) string {
	if refused, ok := errors.AsType[*client.Error](err); ok {
		return refused.Detail()
	}
	return err.Error()
}

// newest returns the flow's newest run.
func (l *loop) newest(ctx context.Context) (run client.Run, err error) {
	var page struct {
		Items []client.Run `json:"items"`
	}
	if err := l.API.Do(ctx, http.MethodGet, "/runs?limit=1&flow_name="+l.flow, nil, &page); err != nil {
		return run, err
	}
	if len(page.Items) == 0 {
		return run, fmt.Errorf("%s has not run: press r", l.flow)
	}
	return page.Items[0], nil
}
