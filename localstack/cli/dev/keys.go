package dev

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"millrace/localstack/client"
)

// Help describes the keys.
const Help = "r run   f retry from failed with the new code   o open   q quit"

// press handles a key. If a deployment is in progress, a key that needs the code is
// handled after it.
func (l *loop) press(ctx context.Context, key byte) {
	switch key {
	case 'q':
		l.quit()
	case 'o':
		url := l.API.BaseURL + "/docs"
		if err := l.Open(url); err != nil {
			l.say("%s (no browser was opened: %s)", url, err)
		}
	case 'r', 'f':
		switch {
		case l.busy:
			l.waiting = key
		case l.wrong:
			l.say("what was saved last is not deployed: mend it first")
		case l.flow == "":
			l.say("no flow is deployed")
		case key == 'r':
			run, err := l.API.Start(ctx, client.RunRequest{Deployment: l.flow})
			if refused, ok := errors.AsType[*client.Error](err); ok && strings.Contains(refused.Detail(), "body.parameters") {
				err = fmt.Errorf("%s\nr gives no parameters: let them have defaults, or run it with millrace run %s -p NAME=VALUE -w", refused.Detail(), l.flow)
			}
			l.start(ctx, run, err)
		default:
			l.retry(ctx)
		}
	case '\n', '\r', '?', 'h':
		l.say("%s", Help)
	}
}

// retry retries the flow's newest run from its failed tasks with the current code.
func (l *loop) retry(ctx context.Context) {
	run, err := l.newest(ctx)
	if err == nil {
		run, err = l.API.RetryFromFailedWith(ctx, run.RunID, "dev-"+l.hash)
	}
	l.start(ctx, run, err)
}

// choose sets the flow to run: one of the file that was saved last; otherwise the
// previous one if it still exists, otherwise the first.
func (l *loop) choose() {
	var saved, all []string
	for _, f := range l.flows {
		all = append(all, f.Name)
		if f.File != "" && filepath.Join(l.Dir, f.File) == l.file {
			saved = append(saved, f.Name)
		}
	}
	for _, candidates := range [][]string{saved, all} {
		if slices.Contains(candidates, l.flow) {
			return
		}
		if len(candidates) > 0 {
			l.flow = candidates[0]
			return
		}
	}
	l.flow = ""
}
