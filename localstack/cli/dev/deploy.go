package dev

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"millrace/localstack/cli/flows"
	"millrace/localstack/client"
)

// parallel is the number of flows that are deployed at a time.
const parallel = 8

// deploy deploys each flow and returns a line of output for each. The error joins
// those of all flows that the server rejected.
func deploy(ctx context.Context, api *client.Client, code *flows.Code) (lines []string, err error) {
	var group errgroup.Group
	group.SetLimit(parallel)
	lines, errs := make([]string, len(code.Flows)), make([]error, len(code.Flows))
	for i, f := range code.Flows {
		group.Go(func() error {
			made, err := code.Deploy(ctx, api, f, version(code))
			lines[i] = fmt.Sprintf("%s %s, deployment version %d", f.Name, version(code), made.DeploymentVersion)
			if made.NextRunEpoch != 0 {
				lines[i] += ", next run by its schedule " + time.Unix(made.NextRunEpoch, 0).Format(time.DateTime)
			}
			errs[i] = f.Locate(err)
			return nil
		})
	}
	_ = group.Wait() // each has its error
	return lines, errors.Join(errs...)
}
