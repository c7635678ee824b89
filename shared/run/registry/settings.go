package registry

// Settings are what an upload sets of a deployment besides its flow; nil: what it
// was, or the default of a new one.
type Settings struct {
	Environment     *string
	Namespace       *string
	Status          *string
	Schedule        *string
	Timezone        *string
	ExecutionMode   *string // as [Registration.ExecutionMode] has it, checked
	DefaultExecutor *string
	Tags            map[string]string
	DepPackageSlugs []string
}

// Deployment returns [Deploy.Next] of a deployment of the registered version: a new
// one has the registration's runtime and the defaults.
func (r *Registration) Deployment(set Settings) func(*Deployment) (Deployment, error) {
	return func(now *Deployment) (Deployment, error) {
		next := Deployment{
			Environment: DefaultEnvironment, Status: Active,
			ExecutionMode: r.ExecutionMode, DefaultExecutor: r.DefaultExecutor,
		}
		if now != nil {
			next = *now
		}
		next.FlowName, next.FlowVersion = r.FlowName, r.FlowVersion
		if set.ExecutionMode != nil {
			next.ExecutionMode = r.ExecutionMode
		}
		if set.DefaultExecutor != nil {
			next.DefaultExecutor = r.DefaultExecutor
		}
		for field, value := range map[*string]*string{
			&next.Environment: set.Environment, &next.Namespace: set.Namespace, &next.Status: set.Status,
			&next.Schedule: set.Schedule, &next.Timezone: set.Timezone,
		} {
			if value != nil {
				*field = *value
			}
		}
		if set.Tags != nil {
			next.Tags = set.Tags
		}
		if set.DepPackageSlugs != nil {
			next.DepPackageSlugs = set.DepPackageSlugs
		}
		return next, nil
	}
}
