package deployments

import (
	"encoding/json"

	"millrace/shared/platform/errs"
	"millrace/shared/run/registry"
	"millrace/shared/run/tier"
	"millrace/shared/web/httpapi"
)

// Settings are the fields of a deployment besides its flow. Those absent or
// null keep their value, or have the default in a new deployment.
type Settings struct {
	Environment     *string                     `json:"environment,omitempty" is:"name" example:"production" doc:"default, unless it is named; one that is not there is made"`
	Namespace       *string                     `json:"namespace,omitempty" maxLength:"128"`
	ExecutionMode   *string                     `json:"execution_mode,omitempty" maxLength:"64" example:"small" doc:"nano, micro, small, medium, large or xlarge; a new deployment takes the version's. Another is 400"`
	DefaultExecutor *string                     `json:"default_executor,omitempty" maxLength:"64" doc:"One of GET /backends; a new deployment takes the version's. Another is 400"`
	Status          *string                     `json:"status,omitempty" enum:"ACTIVE,INACTIVE" doc:"An ACTIVE deployment keeps its flow from being deleted; an INACTIVE one starts no runs"`
	Schedule        *string                     `json:"schedule,omitempty" maxLength:"256" doc:"A cron expression, such as 30 6 * * MON-FRI: five fields, or @hourly, @daily, @weekly, @monthly, @yearly. The deployment then has a schedule of its own, whose id is schedule_id. Empty or null: it has none, and that schedule is deleted"`
	Timezone        *string                     `json:"timezone,omitempty" maxLength:"64" doc:"IANA name such as Europe/Berlin, of schedule; empty or null: UTC"`
	Parameters      *map[string]json.RawMessage `json:"parameters,omitempty" doc:"Defaults under a run's own parameters, checked against the flow's schema; up to 256 KB. Replaces all"`
	Tags            *map[string]string          `json:"tags,omitempty" doc:"Up to 50. Replaces all"`
	DepPackageSlugs *[]string                   `json:"dep_package_slugs,omitempty" doc:"Up to 50. Replaces all"`
}

// check returns the errors of the settings. Errors: errs.Unprocessable with all
// violations; errs.Invalid for an unsupported runtime.
func (s *Settings) check(tiers tier.Set) error {
	faults := registry.CheckSchedule(s.Schedule, s.Timezone)
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
		if _, err := tiers.Parse(*s.ExecutionMode); err != nil {
			return err
		}
	}
	if s.DefaultExecutor != nil {
		_, err := registry.ParseExecutor(*s.DefaultExecutor)
		return err
	}
	return nil
}

// apply changes a deployment. An empty runtime means the default. Of what is null
// the schedule and its time zone are cleared.
func (s *Settings) apply(d *registry.Deployment, nulls httpapi.Nulls) {
	httpapi.Set(&d.Schedule, s.Schedule, nulls.Has("schedule"))
	httpapi.Set(&d.Timezone, s.Timezone, nulls.Has("timezone"))
	httpapi.Set(&d.Environment, s.Environment, false)
	httpapi.Set(&d.Namespace, s.Namespace, false)
	httpapi.Set(&d.Status, s.Status, false)
	httpapi.Set(&d.Parameters, s.Parameters, false)
	httpapi.Set(&d.Tags, s.Tags, false)
	httpapi.Set(&d.DepPackageSlugs, s.DepPackageSlugs, false)
	if s.ExecutionMode != nil {
		size, _ := tier.Parse(*s.ExecutionMode) // checked
		d.ExecutionMode = string(size)
	}
	if s.DefaultExecutor != nil {
		d.DefaultExecutor, _ = registry.ParseExecutor(*s.DefaultExecutor) // checked
	}
}
