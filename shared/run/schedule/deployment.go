package schedule

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// A schedule that is set on a deployment is a record of its own, with an id made
// of the deployment's name. Other schedules have no such ids.
const (
	ownPrefix = "deployment."
	// maxID is the greatest length of an id. The id of a deployment with a longer
	// name ends with a hash of it.
	maxID = 128
)

// DeploymentID returns the id of the schedule that is set on a deployment.
func DeploymentID(deployment string) string {
	id := ownPrefix + deployment
	if len(id) <= maxID {
		return id
	}
	sum := sha256.Sum256([]byte(deployment))
	hash := "." + hex.EncodeToString(sum[:8])
	return id[:maxID-len(hash)] + hash
}

// IsDeploymentID reports whether an id is one that only [DeploymentID] makes.
func IsDeploymentID(id string) bool { return strings.HasPrefix(id, ownPrefix) }

// SetOnDeployment returns the schedule that a deployment of a flow has by its
// cron expression and zone ("" is UTC). What can be set on the schedule itself it
// keeps of was, which is nil if there is none yet.
func SetOnDeployment(was *Schedule, deployment, flow, expression, zone string) Schedule {
	next := Schedule{ScheduleID: DeploymentID(deployment), Enabled: true, CatchupPolicy: CatchUpNone}
	if was != nil {
		next = *was
	}
	next.OfDeployment, next.Deployment, next.FlowName, next.FlowVersion = true, &deployment, flow, nil
	next.Mode, next.IntervalSeconds, next.CronExpression, next.Timezone = Cron, nil, &expression, cmp.Or(zone, "UTC")
	return next
}

// KeepsOf reports whether a change of a schedule that is set on a deployment
// leaves to the deployment what is the deployment's.
func (s *Schedule) KeepsOf(was *Schedule) bool {
	return s.SameTiming(was) && s.FlowName == was.FlowName && same(s.FlowVersion, was.FlowVersion) && same(s.Deployment, was.Deployment)
}
