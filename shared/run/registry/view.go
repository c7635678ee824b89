package registry

import "encoding/json"

// FlowView is a flow as responses and audit entries show it.
type FlowView struct {
	FlowName      string            `json:"flow_name"`
	LatestVersion string            `json:"latest_version" doc:"The version registered last"`
	VersionCount  int               `json:"version_count"`
	Description   *string           `json:"description" doc:"Of the latest version"`
	Tags          map[string]string `json:"tags" doc:"Of the latest version"`
	CreatedAt     string            `json:"created_at" format:"date-time"`
	UpdatedAt     string            `json:"updated_at" format:"date-time" doc:"When a version was last registered"`
}

// View returns the view of a flow.
func (h *Head) View() FlowView {
	return FlowView{
		FlowName: h.FlowName, LatestVersion: h.LatestVersion, VersionCount: h.Versions,
		Description: orNull(h.Description), Tags: orEmpty(h.Tags),
		CreatedAt: h.CreatedAt.String(), UpdatedAt: h.UpdatedAt.String(),
	}
}

// VersionView is a version as responses and audit entries show it.
type VersionView struct {
	FlowName         string            `json:"flow_name"`
	FlowVersion      string            `json:"flow_version"`
	SpecHash         string            `json:"spec_hash" doc:"Hash of the flow_spec's content"`
	TaskCount        int               `json:"task_count"`
	ArtifactStoreURI *string           `json:"artifact_store_uri" doc:"Where the code is, null for a flow without Python tasks"`
	CodeHash         *string           `json:"code_hash"`
	Description      *string           `json:"description"`
	DefaultExecutor  string            `json:"default_executor"`
	ExecutionMode    string            `json:"execution_mode"`
	Tags             map[string]string `json:"tags"`
	DepPackageSlugs  []string          `json:"dep_package_slugs"`
	RegisteredAt     string            `json:"registered_at" format:"date-time"`
	RegisteredBy     string            `json:"registered_by"`
}

// View returns the view of a version.
func (v *Version) View() VersionView {
	return VersionView{
		FlowName: v.FlowName, FlowVersion: v.FlowVersion, SpecHash: v.SpecHash, TaskCount: v.TaskCount,
		ArtifactStoreURI: orNull(ArtifactURI(v.ArtifactKey)), CodeHash: orNull(v.CodeHash), Description: orNull(v.Description),
		DefaultExecutor: v.DefaultExecutor, ExecutionMode: v.ExecutionMode,
		Tags: orEmpty(v.Tags), DepPackageSlugs: append([]string{}, v.DepPackageSlugs...),
		RegisteredAt: v.RegisteredAt.String(), RegisteredBy: v.RegisteredBy,
	}
}

// DeploymentView is a deployment as responses and audit entries show it.
type DeploymentView struct {
	DeploymentName    string                     `json:"deployment_name"`
	DeploymentVersion int                        `json:"deployment_version" doc:"Raised by one with each change"`
	FlowName          string                     `json:"flow_name"`
	FlowVersion       string                     `json:"flow_version"`
	Environment       string                     `json:"environment"`
	Namespace         *string                    `json:"namespace"`
	ExecutionMode     string                     `json:"execution_mode"`
	DefaultExecutor   string                     `json:"default_executor"`
	Status            string                     `json:"status" enum:"ACTIVE,INACTIVE"`
	Schedule          *string                    `json:"schedule" doc:"A cron expression; null: it has no schedule of its own"`
	Timezone          *string                    `json:"timezone" doc:"Of schedule; null: UTC"`
	ScheduleID        *string                    `json:"schedule_id" doc:"Of GET /schedules/{schedule_id}; null without schedule"`
	Parameters        map[string]json.RawMessage `json:"parameters" doc:"Defaults under a run's own parameters"`
	Tags              map[string]string          `json:"tags"`
	DepPackageSlugs   []string                   `json:"dep_package_slugs"`
	CreatedAt         string                     `json:"created_at" format:"date-time"`
	CreatedBy         string                     `json:"created_by"`
	UpdatedAt         string                     `json:"updated_at" format:"date-time"`
	UpdatedBy         string                     `json:"updated_by"`
}

// View returns the view of a deployment.
func (d *Deployment) View() DeploymentView {
	return DeploymentView{
		DeploymentName: d.Name, DeploymentVersion: d.DeploymentVersion, FlowName: d.FlowName, FlowVersion: d.FlowVersion,
		Environment: d.Environment, Namespace: orNull(d.Namespace), ExecutionMode: d.ExecutionMode,
		DefaultExecutor: d.DefaultExecutor, Status: d.Status, Schedule: orNull(d.Schedule), Timezone: orNull(d.Timezone), ScheduleID: d.scheduleID(),
		Parameters: orEmpty(d.Parameters), Tags: orEmpty(d.Tags), DepPackageSlugs: append([]string{}, d.DepPackageSlugs...),
		CreatedAt: d.CreatedAt.String(), CreatedBy: d.CreatedBy, UpdatedAt: d.UpdatedAt.String(), UpdatedBy: d.UpdatedBy,
	}
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func orEmpty[V any](m map[string]V) map[string]V {
	if m == nil {
		return map[string]V{}
	}
	return m
}
