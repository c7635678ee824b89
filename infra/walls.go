package main

import (
	"fmt"

	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/jsii-runtime-go"

	"millrace/events"
	"millrace/shared/account/quota"
	"millrace/shared/run/tier"
	"millrace/shared/web/fn"
)

// Concurrency of an account.
const (
	usualConcurrency = 1000 // Lambda's default quota, assumed where it is unknown
	leastReserved    = 200  // concurrency from which functions have some of it reserved
	keptUnreserved   = 100  // what Lambda keeps unreserved in an account
	steep            = 1000 // concurrency above which the functions' part grows a quarter as fast
	leastMapping     = 2    // smallest maximum of an event source mapping
	mostMapping      = 1000 // and the largest
)

// Parts of a deployment's concurrency, in thousandths. The sandboxes have the
// rest.
const (
	forAPI      = 250 // functions of the API, together
	forRuns     = 300 // of that, and not of the deployment's, function runs, where callers wait for their runs
	forAttempts = 400 // of that, sandboxlogs, to which every running task posts
	forWorkers  = 80  // taskworker
	forDefault  = 500 // of that, the tasks of the default tier; the other tiers share the rest
	forDispatch = 20
	forEvents   = 5 // each queue of another function
)

// forTick is the concurrency of the function of the tick: one may still run when
// the next begins.
const forTick = 2

// forProbe is that of a function that tries the service every minute, for as long.
const forProbe = 2

// walls divides the concurrency of a deployment between its functions.
type walls struct {
	whole    int            // the deployment's part of the account's concurrency
	reserved map[string]int // by function; empty if there is too little of it
	mappings map[string]int // the largest number of batches at once, by queue
}

// sandboxes returns the concurrency that is left to the sandboxes.
func (w walls) sandboxes() int {
	left := w.whole
	for _, n := range w.reserved {
		left -= n
	}
	return left
}

// limits returns the settings of limits with the walls between workspaces first,
// which an operator's own replace: one of them runs Python tasks in half of the
// sandboxes' part at most, and all together, each its share, in that part.
func (w walls) limits(cfg Config) []string {
	return append([]string{
		fmt.Sprintf("%s=%d", quota.RunningTasks, max(w.sandboxes()/2, 1)),
		fmt.Sprintf("%s=%d", quota.RunningOfAll, max(w.sandboxes(), 1)),
	}, cfg.Limits...)
}

// part returns thousandths of a number, but at least some.
func part(of, thousandths, least int) int { return max(of*thousandths/1000, least) }

// divide returns the walls of a deployment. Those that trigger functions have a
// maximum in any account; concurrency is reserved if the account's quota is
// known and leaves enough.
func (c Config) divide(specs []fn.Spec) walls {
	w := walls{whole: c.whole(), reserved: map[string]int{}, mappings: map[string]int{}}
	grows := min(w.whole, steep) + max(w.whole-steep, 0)/4
	var api []fn.Spec
	for _, s := range specs {
		sum := 0
		for _, queue := range queuesOf(s) {
			n := part(grows, forEvents, leastMapping)
			if queue == events.Runs {
				n = part(grows, forDispatch, leastMapping)
			} else if t, ok := events.TierOf(queue); ok {
				n = part(grows*forWorkers/1000, (1000-forDefault)/(len(tier.All())-1), leastMapping)
				if tier.Tier(t) == tier.Default {
					n = part(grows*forWorkers/1000, forDefault, leastMapping)
				}
			}
			w.mappings[queue] = min(n, mostMapping)
			sum += w.mappings[queue]
		}
		switch {
		case s.Trigger.HTTP, s.Trigger.OwnURL:
			api = append(api, s)
		case s.Trigger.EveryMinute:
			sum += forTick
		case s.Trigger.Probe:
			sum += forProbe
		}
		w.reserved[s.Name] = sum
	}
	kept := keptUnreserved * w.whole / max(c.Concurrency, 1)
	w.divideAPI(api, part(grows, forAPI, 0), 2)
	if w.sandboxes() < kept {
		w.divideAPI(api, part(grows, forAPI, 0), 1)
	}
	if c.Concurrency == 0 || w.whole < leastReserved || w.sandboxes() < kept {
		w.reserved = map[string]int{}
	}
	return w
}

// divideAPI divides the concurrency of the API between its functions, of which
// each gets some at least.
func (w walls) divideAPI(api []fn.Spec, whole, least int) {
	others := 0
	for _, s := range api {
		if part(whole, thousandthsOf(s), 0) == 0 {
			others++
		}
	}
	for _, s := range api {
		n := part(whole, thousandthsOf(s), 0)
		if n == 0 {
			n = part(whole, 1000-forRuns-forAttempts, 0) / max(others, 1)
		}
		w.reserved[s.Name] = max(n, least)
		for _, queue := range queuesOf(s) {
			w.reserved[s.Name] += w.mappings[queue]
		}
	}
}

// thousandthsOf returns the part of a function of the API of its own, 0 if it
// shares the rest with others.
func thousandthsOf(s fn.Spec) int {
	switch s.Name {
	case "runs":
		return forRuns
	case "sandboxlogs":
		return forAttempts
	}
	return 0
}

// reserves returns the concurrency that the deployment's functions reserve of a
// quota, unless the context names another.
func (c Config) reserves(quota int) int {
	if c.Concurrency == 0 {
		c.Concurrency = quota
	}
	sum := 0
	for _, n := range c.divide(functions(c)).reserved {
		sum += n
	}
	return sum
}

// whole returns the deployment's part of the account's concurrency.
func (c Config) whole() int {
	quota := c.Concurrency
	if quota == 0 {
		quota = usualConcurrency
	}
	return quota * c.share() / 100
}

func (c Config) share() int {
	if c.Share == 0 {
		return 100
	}
	return c.Share
}

// scaling limits how many batches of a queue a function handles at once.
func (w walls) scaling(queue string) *awslambda.CfnEventSourceMapping_ScalingConfigProperty {
	return &awslambda.CfnEventSourceMapping_ScalingConfigProperty{MaximumConcurrency: jsii.Number(w.mappings[queue])}
}

// reserve returns the reserved concurrency of a function, nil for none.
func (w walls) reserve(spec fn.Spec) *float64 {
	n, reserved := w.reserved[spec.Name]
	if !reserved || n == 0 {
		return nil
	}
	return jsii.Number(n)
}
