// Package catalog is the registry of the service's functions: the explicit list
// from which the embedded server, the bootstrap, the deployment and the table
// of operations are derived. Adding a domain takes one folder and one line
// here.
package catalog

import (
	"fmt"

	"millrace/functions/admin"
	"millrace/functions/artifacts"
	"millrace/functions/audit"
	"millrace/functions/auth"
	"millrace/functions/backfills"
	"millrace/functions/console"
	"millrace/functions/deployments"
	"millrace/functions/dispatch"
	"millrace/functions/environments"
	"millrace/functions/execution"
	"millrace/functions/flows"
	"millrace/functions/health"
	"millrace/functions/notifications"
	"millrace/functions/notifier"
	"millrace/functions/orgs"
	"millrace/functions/retention"
	"millrace/functions/runs"
	"millrace/functions/sandboxlogs"
	"millrace/functions/schedulertick"
	"millrace/functions/schedules"
	"millrace/functions/secrets"
	"millrace/functions/sensors"
	"millrace/functions/synthetic"
	"millrace/functions/taskworker"
	"millrace/shared/kit/due"
	"millrace/shared/web/fn"
)

// All returns the spec of every function, HTTP domains first.
func All() []fn.Spec { return With() }

// Optional returns the functions that only deployments have that ask for them.
func Optional() []fn.Spec { return []fn.Spec{synthetic.Spec} }

// With returns the catalog extended by more functions. It panics if functions
// conflict.
func With(more ...fn.Spec) []fn.Spec {
	return ticked(checked(append([]fn.Spec{
		admin.Spec,
		artifacts.Spec,
		audit.Spec,
		auth.Spec,
		backfills.Spec,
		console.Spec,
		deployments.Spec,
		environments.Spec,
		execution.Spec,
		flows.Spec,
		health.Spec,
		notifications.Spec,
		orgs.Spec,
		runs.Spec,
		sandboxlogs.Spec,
		schedules.Spec,
		secrets.Spec,
		sensors.Spec,

		audit.DigestSpec,
		backfills.DueSpec,
		backfills.EventsSpec,
		dispatch.Spec,
		notifier.DueSpec,
		notifier.Spec,
		retention.Spec,
		schedules.DueSpec,
		sensors.PollSpec,
		schedulertick.Spec,
		sensors.ObjectsSpec,
		taskworker.Spec,
	}, more...)...))
}

// ticked adds the kinds of timed work of the functions to the scheduler's tick.
func ticked(specs []fn.Spec) []fn.Spec {
	var kinds []due.Kind
	for _, s := range specs {
		kinds = append(kinds, s.Trigger.Due...)
	}
	for i, s := range specs {
		if s.Name == schedulertick.Spec.Name {
			specs[i] = schedulertick.For(kinds...)
		}
	}
	return specs
}

// Find returns the function with a name. ok is false if there is none.
func Find(specs []fn.Spec, name string) (fn.Spec, bool) {
	for _, s := range specs {
		if s.Name == name {
			return s, true
		}
	}
	return fn.Spec{}, false
}

// Unmatched returns the function for requests that match no operation. ok is
// false if there is none.
func Unmatched(specs []fn.Spec) (fn.Spec, bool) {
	for _, s := range specs {
		if s.Trigger.Unmatched {
			return s, true
		}
	}
	return fn.Spec{}, false
}

// validate returns an error for a function that would not work when deployed: a
// Lambda function has one entry point, so it takes one kind of event. A domain
// that serves requests and handles events has a function for each.
func validate(s fn.Spec) error {
	handlers := 0
	for _, there := range []bool{s.Routes != nil, s.Messages != nil, s.Handle != nil} {
		if there {
			handlers++
		}
	}
	fed := len(s.Trigger.Queues) > 0 || len(s.Trigger.DetailTypes) > 0 || len(s.Trigger.Due) > 0 || len(s.Trigger.Objects.Events) > 0
	fault := ""
	switch {
	case handlers == 0:
		fault = "takes no event"
	case handlers > 1:
		fault = "takes several kinds of events: make it several functions"
	case s.Trigger.HTTP && s.Routes == nil:
		fault = "has an HTTP trigger, and no operations"
	case !s.Trigger.HTTP && s.Routes != nil:
		fault = "has operations, and no HTTP trigger"
	case s.Trigger.Unmatched && !s.Trigger.HTTP:
		fault = "gets unmatched requests, and has no HTTP trigger"
	case s.Trigger.OwnURL && (!s.Trigger.HTTP || s.Trigger.Unmatched):
		fault = "has a URL of its own, and requests that do not come by it"
	case s.Trigger.EveryMinute && s.Trigger.Probe:
		fault = "gets a tick and an empty event every minute"
	case (s.Trigger.EveryMinute || s.Trigger.Probe) && s.Handle == nil:
		fault = "is invoked every minute, and has no Handle"
	case fed && s.Messages == nil:
		fault = "is fed by queues, and takes no messages"
	case !fed && s.Messages != nil:
		fault = "takes messages, and nothing feeds it"
	}
	if fault == "" {
		return nil
	}
	return fmt.Errorf("catalog: function %q %s", s.Name, fault)
}

// checked panics on functions that conflict: two with one name, two for one
// kind of timed work, two for unmatched requests, and two for events of the
// bucket, because S3 notifies only one queue of each event.
func checked(specs ...fn.Spec) []fn.Spec {
	seen := make(map[string]bool, len(specs))
	objectsTo, unmatchedTo, dueTo := "", "", map[string]string{}
	for _, s := range specs {
		if seen[s.Name] {
			panic(fmt.Sprintf("catalog: two functions are named %q", s.Name))
		}
		seen[s.Name] = true
		if err := validate(s); err != nil {
			panic(err)
		}
		for _, kind := range s.Trigger.Due {
			if err := kind.Check(); err != nil {
				panic(fmt.Sprintf("catalog: %s: %v", s.Name, err))
			}
			if dueTo[kind.Name] != "" {
				panic(fmt.Sprintf("catalog: %q and %q both take what is due of the kind %q", dueTo[kind.Name], s.Name, kind.Name))
			}
			dueTo[kind.Name] = s.Name
		}
		if s.Trigger.Unmatched {
			if unmatchedTo != "" {
				panic(fmt.Sprintf("catalog: %q and %q both get unmatched requests", unmatchedTo, s.Name))
			}
			unmatchedTo = s.Name
		}
		if len(s.Trigger.Objects.Events) > 0 {
			if objectsTo != "" {
				panic(fmt.Sprintf("catalog: %q and %q both get events of objects", objectsTo, s.Name))
			}
			objectsTo = s.Name
		}
	}
	return specs
}
