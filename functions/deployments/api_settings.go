package deployments

import (
	"encoding/json"

	"millrace/shared/platform/errs"
	"millrace/shared/run/registry"
	"millrace/shared/run/tier"
)

// Settings are the fields of a deployment besides its flow. Those absent or
// null keep their value, or have the default in a new deployment.
type Settings struct {
	Environment     *string                     `json:"environment,omitempty" is:"name" example:"production" doc:"default, unless it is named; one that is not there is made"`
	Namespace       *string                     `json:"namespace,omitempty" maxLength:"128"`
	ExecutionMode   *string                     `json:"execution_mode,omitempty" maxLength:"64" example:"small" doc:"nano, micro, small, medium, large or xlarge; a new deployment takes the version's. Another is 400"`
	DefaultExecutor *string                     `json:"default_executor,omitempty" maxLength:"64" doc:"One of GET /backends; a new deployment takes the version's. Another is 400"`
	Status          *string                     `json:"status,omitempty" enum:"ACTIVE,INACTIVE" doc:"An ACTIVE deployment keeps its flow from being deleted; an INACTIVE one starts no runs"`
	Schedule        *string                     `json:"schedule,omitempty" maxLength:"256" doc:"Must be null: schedules are resources of their own"`
	Timezone        *string                     `json:"timezone,omitempty" maxLength:"64" doc:"Kept and shown"`
	Parameters      *map[string]json.RawMessage `json:"parameters,omitempty" doc:"Defaults under a run's own parameters, checked against the flow's schema; up to 256 KB. Replaces all"`
	Tags            *map[string]string          `json:"tags,omitempty" doc:"Up to 50. Replaces all"`
	DepPackageSlugs *[]string                   `json:"dep_package_slugs,omitempty" doc:"Up to 50. Replaces all"`
}

// check returns the errors of the settings. Errors: errs.Unprocessable with all
// violations; errs.Invalid for an unsupported runtime.
func (s *Settings) check() error {
	var faults []errs.Detail
	bad := func(field string, input any, msg string) {
		faults = append(faults, errs.Detail{Type: "value_error", Loc: errs.Body(field), Msg: msg, Input: input})
	}
	if s.Schedule != nil {
		bad("schedule", *s.Schedule, "a deployment has no schedule of its own: make a schedule that names the deployment")
	}
	if s.Tags != nil {
		faults = append(faults, registry.CheckTags(errs.Body("tags"), *s.Tags)...)
	}
	if s.DepPackageSlugs != nil {
		faults = append(faults, registry.CheckSlugs(errs.Body("dep_package_slugs"), *s.DepPackageSlugs)...)
	}
	if s.Parameters != nil {
		faults = append(faults, registry.CheckParameters(errs.Body("parameters"), *s.Parameters)...)
	}
	if len(faults) > 0 {
		return errs.Validation(faults...)
	}
	if s.ExecutionMode != nil {
		if _, err := tier.Parse(*s.ExecutionMode); err != nil {
			return err
		}
	}
	if s.DefaultExecutor != nil {
		_, err := registry.ParseExecutor(*s.DefaultExecutor)
		return err
	}
	return nil
}

// apply changes a deployment. An empty runtime means the default.
func (s *Settings) apply(d *registry.Deployment) {
	set(&d.Environment, s.Environment)
	set(&d.Namespace, s.Namespace)
	set(&d.Status, s.Status)
	set(&d.Timezone, s.Timezone)
	set(&d.Parameters, s.Parameters)
	set(&d.Tags, s.Tags)
	set(&d.DepPackageSlugs, s.DepPackageSlugs)
	if s.ExecutionMode != nil {
		size, _ := tier.Parse(*s.ExecutionMode) // checked
		d.ExecutionMode = string(size)
	}
	if s.DefaultExecutor != nil {
		d.DefaultExecutor, _ = registry.ParseExecutor(*s.DefaultExecutor) // checked
	}
}

func set[T any](field, value *T) {
	if value != nil {
		*field = *value
	}
}
