package dev

import (
	"context"
	"errors"
	"fmt"

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
			errs[i] = f.Placed(err)
			return nil
		})
	}
	_ = group.Wait() // each has its error
	return told, errors.Join(errs...)
}
