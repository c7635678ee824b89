package dev

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"

	"millrace/localstack/cli/flows"
	"millrace/localstack/client"
)

// together is how many flows are deployed at once.
const together = 8

// deploy deploys each flow, and returns a line for each. The error tells of all flows that
// the server refused.
func deploy(ctx context.Context, api *client.Client, code *flows.Code) (told []string, err error) {
	var group errgroup.Group
	group.SetLimit(together)
	told, errs := make([]string, len(code.Flows)), make([]error, len(code.Flows))
	for i, f := range code.Flows {
		group.Go(func() error {
			number, err := code.Deploy(ctx, api, f, version(code))
			told[i] = fmt.Sprintf("%s %s, deployment version %d", f.Name, version(code), number)
			errs[i] = placed(f, err)
			return nil
		})
	}
	_ = group.Wait() // each has its error
	return told, errors.Join(errs...)
}

var taskPlace = regexp.MustCompile(`^body\.flow_spec\.tasks\[(\d+)\]`)

// placed says of a refusal where in the user's files it is: at the task that it names, or
// at the flow.
func placed(f flows.Flow, err error) error {
	refused, ok := errors.AsType[*client.Error](err)
	if !ok {
		return err
	}
	var lines []string
	for line := range strings.Lines(refused.Detail()) {
		at := f.Name
		if f.File != "" {
			at = fmt.Sprintf("%s:%d", f.File, f.Line)
		}
		if found := taskPlace.FindStringSubmatch(line); found != nil {
			if i, err := strconv.Atoi(found[1]); err == nil && i < len(f.Lines) && f.Lines[i] != "" {
				at = f.Lines[i]
			}
		}
		lines = append(lines, at+": "+strings.TrimRight(line, "\n"))
	}
	return errors.New(strings.Join(lines, "\n"))
}
