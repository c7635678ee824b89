package sensors

import (
	"context"
	"encoding/json"
	"maps"

	"millrace/shared/account/tenant"
	"millrace/shared/platform/errs"
	"millrace/shared/run/launch"
	"millrace/shared/run/registry"
)

// SensorTestResponse tells what an event of a sensor would do now.
type SensorTestResponse struct {
	Status       string                     `json:"status" enum:"ok"`
	DryRun       bool                       `json:"dry_run" doc:"Always true"`
	SensorID     string                     `json:"sensor_id"`
	FlowName     string                     `json:"flow_name"`
	FlowVersion  *string                    `json:"flow_version" doc:"The latest; null: the flow is not registered"`
	WouldTrigger bool                       `json:"would_trigger"`
	Reason       *string                    `json:"reason" doc:"Why it would start no run, or under what condition; null: it would"`
	Parameters   map[string]json.RawMessage `json:"parameters" doc:"That the sensor gives the run"`
}

// test tells what an event of a sensor would do now, and does nothing. Errors:
// errs.NotFound.
func (s *service) test(ctx context.Context, in *Path) (SensorTestResponse, error) {
	sensor, err := s.sensors.Get(ctx, in.ID)
	if err != nil {
		return SensorTestResponse{}, err
	}
	out := SensorTestResponse{Status: "ok", DryRun: true, SensorID: sensor.SensorID, FlowName: sensor.FlowName}
	c, reason, err := s.sample(ctx, &sensor)
	if err != nil {
		return out, err
	}
	req, err := s.request(ctx, &sensor, c)
	if err == nil {
		out.FlowVersion = &req.Version
		_, err = s.launcher.Check(ctx, tenant.From(ctx).OrgID, req)
	}
	out.Parameters = maps.Clone(c.injected)
	if out.Parameters == nil {
		out.Parameters = map[string]json.RawMessage{}
	}
	maps.Copy(out.Parameters, sensor.FlowParamsJSON)
	refused := errs.CodeOf(err) != errs.Internal && err != nil
	switch {
	case !sensor.Enabled:
		reason = "the sensor is disabled"
	case reason != "" && (err == nil || refused): // the event itself starts no run
	case refused:
		reason = errs.Text(err)
		out.WouldTrigger = sensor.SensorType == webhook && s.completes(ctx, req)
		if out.WouldTrigger {
			reason = "only for requests that give the missing parameters: " + reason
		}
	case err != nil:
		return out, err
	default:
		out.WouldTrigger = true
	}
	if reason != "" {
		out.Reason = &reason
	}
	return out, nil
}

// completes reports whether a run that is refused would be accepted with further
// parameters.
func (s *service) completes(ctx context.Context, req launch.Request) bool {
	org := tenant.From(ctx).OrgID
	version, err := registry.GetVersion(ctx, s.sensors.Table, org, req.Flow, req.Version)
	if err != nil {
		return false
	}
	flow, err := registry.LoadFlow(ctx, s.sensors.Table, s.registry.Blob, org, version.SpecHash)
	return err == nil && flow.CheckDefaults(ctx, req.Parameters) == nil
}

// sample returns what an event would start a run for, and why it would not, ""
// if it would: a webhook's request without a body, an object whose key is the
// prefix, a name and the suffix, the response to one poll.
func (s *service) sample(ctx context.Context, sensor *Sensor) (c cause, reason string, err error) {
	switch sensor.SensorType {
	case objstore:
		c.injected, err = injected(text(sensor.ConfigJSON.Bucket), text(sensor.ConfigJSON.Prefix)+"example"+text(sensor.ConfigJSON.Suffix))
	case polling:
		var got response
		if got, err = s.pollOnce(ctx, sensor, maxTestTimeout); err != nil {
			return c, "", err
		}
		reason = got.reason
		if reason == "" && sensor.StoppedAt != 0 {
			reason = "the sensor stopped after its first match, at " + sensor.StoppedAt.String()
		}
	}
	return c, reason, err
}
