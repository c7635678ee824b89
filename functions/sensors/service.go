package sensors

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"time"

	"millrace/shared/account/quota"
	"millrace/shared/account/tenant"
	"millrace/shared/kit/record"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/ids"
	"millrace/shared/platform/table"
	"millrace/shared/platform/vault"
	"millrace/shared/run/launch"
	"millrace/shared/run/registry"
	"millrace/shared/run/runstate"
	"millrace/shared/web/fn"
	"millrace/shared/web/httpapi"
)

// service implements the rules of sensors.
type service struct {
	sensors  record.Set[Sensor, *Sensor]
	registry registry.Store
	launcher *launch.Launcher
	vault    vault.Vault
	quota    *quota.Quota
	clock    clock.Clock
	cursors  httpapi.Cursors
	bucket   string       // the service's own, which no sensor watches
	client   *http.Client // of polls
	help     string       // tells how the operator can allow an address that polls may not reach
}

func newService(d fn.Deps) *service {
	return &service{
		sensors: record.New[Sensor](sensorKind, d.Records()), registry: d.Registry(), launcher: d.Launcher(), vault: d.Vault,
		quota: d.Quota, clock: d.Clock, bucket: d.Config.Bucket, client: d.Outbound(), help: d.Config.OutboundHelp,
	}
}

// create creates a sensor. Errors: errs.Unprocessable, errs.TooMany.
func (s *service) create(ctx context.Context, in *createIn) (Sensor, error) {
	body, org := &in.Body, tenant.From(ctx).OrgID
	made := Sensor{
		SensorID: "sen_" + ids.New(s.clock.Now()), Name: body.Name, SensorType: body.SensorType,
		FlowName: body.FlowName, FlowParamsJSON: body.FlowParamsJSON, Enabled: true,
	}
	if body.ConfigJSON != nil {
		made.ConfigJSON = *body.ConfigJSON
	}
	faults := registry.CheckParameters(errs.Body("flow_params_json"), made.FlowParamsJSON)
	faults = append(faults, made.ConfigJSON.check(made.SensorType)...)
	if made.SensorType == objstore && s.bucket != "" && text(made.ConfigJSON.Bucket) == s.bucket {
		faults = append(faults, fault("bucket", "this is the service's own bucket, which no sensor watches"))
	}
	if len(faults) > 0 {
		return made, errs.Validation(faults...)
	}
	token, err := s.sealSecrets(ctx, org, &made)
	if err != nil {
		return made, err
	}
	s.begin(&made, s.sensors.Key(ctx, made.SensorID))
	var flow registry.Head
	out, err := s.sensors.Write(ctx, made.SensorID, record.Change[Sensor]{
		Next: func(*Sensor) (Sensor, error) {
			flow, err = registry.GetFlow(ctx, s.sensors.Table, org, made.FlowName)
			if errs.CodeOf(err) == errs.NotFound {
				flow, err = registry.Head{OrgID: org, FlowName: made.FlowName}, nil
			}
			return made, err
		},
		Also: func(o record.Outcome[Sensor]) []table.Write {
			return append(o.After.found(org), registry.Depend(flow, sensorKind.Type, made.SensorID, clock.ToMillis(s.clock.Now()))...)
		},
	})
	out.After.WebhookToken = token
	return out.After, err
}

// sealSecrets makes the token of a webhook, and seals it, the secret of its
// signatures and the headers of polls. It returns the token, nil for other sensors.
func (s *service) sealSecrets(ctx context.Context, org string, made *Sensor) (*string, error) {
	if made.SensorType != webhook {
		return nil, s.sealHeaders(ctx, org, made)
	}
	token := newToken()
	var err error
	made.TokenHash = hashToken(token)
	if made.Token, err = s.seal(ctx, org, made.SensorID, sealedToken, token); err != nil {
		return nil, err
	}
	if secret := made.ConfigJSON.HMACSecret; secret != nil {
		made.ConfigJSON.HMACSecret = new(masked)
		if made.HMAC, err = s.seal(ctx, org, made.SensorID, sealedHMAC, *secret); err != nil {
			return nil, err
		}
	}
	return &token, nil
}

// list lists sensors in order of their ids. Errors: errs.Invalid for a bad
// next_token.
func (s *service) list(ctx context.Context, in *listIn) (SensorListResponse, error) {
	all, next, err := httpapi.ReadPage(ctx, s.cursors, in, func(after string) ([]Sensor, string, error) {
		return s.sensors.Page(ctx, after, in.Limit, nil)
	})
	return SensorListResponse{all, next}, err
}

// get returns a sensor, with the token of a webhook. Errors: errs.NotFound;
// errs.Gone for a token that the vault's keys do not open.
func (s *service) get(ctx context.Context, in *Path) (Sensor, error) {
	found, err := s.sensors.Get(ctx, in.ID)
	if err != nil || found.SensorType != webhook {
		return found, err
	}
	token, err := s.open(ctx, tenant.From(ctx).OrgID, found.SensorID, sealedToken, found.Token)
	if errors.Is(err, vault.ErrRejected) {
		err = errs.Wrap(errs.Gone, err, "The token of the sensor %s cannot be opened with the vault's keys: create it anew", found.SensorID)
	}
	found.WebhookToken = &token
	return found, err
}

// delete deletes a sensor. Errors: errs.NotFound.
func (s *service) delete(ctx context.Context, in *Path) (DeletedSensor, error) {
	org := tenant.From(ctx).OrgID
	_, err := s.sensors.Write(ctx, in.ID, record.Change[Sensor]{
		Next: func(now *Sensor) (next Sensor, err error) {
			if now == nil {
				return next, s.sensors.Absent(in.ID)
			}
			return next, record.ErrDelete
		},
		Also: func(o record.Outcome[Sensor]) []table.Write {
			return append(o.Before.lost(org), registry.Release(org, o.Before.FlowName, sensorKind.Type, in.ID))
		},
	})
	return DeletedSensor{Deleted: err == nil}, err
}

// cause is what starts a run of a sensor.
type cause struct {
	parameters map[string]json.RawMessage // over the sensor's own
	offered    map[string]json.RawMessage // over the sensor's own, as far as the flow knows them
	injected   map[string]json.RawMessage // under the sensor's own
	event      string                     // id of what happened, which starts one run; empty: each call starts one
	within     time.Duration              // how long the id is remembered; 0: for ever
}

// start starts a run of a sensor, of the latest version of its flow, in a
// context of its workspace. Errors: errs.Unprocessable if the flow is not
// registered or the parameters are invalid; errs.TooMany.
func (s *service) start(ctx context.Context, sensor *Sensor, c cause) (runstate.Run, error) {
	req, err := s.request(ctx, sensor, c)
	if err != nil {
		return runstate.Run{}, err
	}
	run, err := s.launcher.Accept(ctx, tenant.From(ctx).OrgID, req)
	if errs.CodeOf(err) == errs.NotFound { // it was deleted meanwhile
		err = unregistered(sensor, err)
	}
	return run, err
}

// request returns the run that a sensor asks for. Errors: errs.Unprocessable if
// the flow is not registered.
func (s *service) request(ctx context.Context, sensor *Sensor, c cause) (launch.Request, error) {
	flow, err := registry.GetFlow(ctx, s.sensors.Table, tenant.From(ctx).OrgID, sensor.FlowName)
	if errs.CodeOf(err) == errs.NotFound {
		return launch.Request{}, unregistered(sensor, err)
	}
	params := maps.Clone(sensor.FlowParamsJSON)
	if params == nil {
		params = map[string]json.RawMessage{}
	}
	maps.Copy(params, c.parameters)
	return launch.Request{
		Flow: sensor.FlowName, Version: flow.LatestVersion, Parameters: params, Offered: c.offered, Injected: c.injected,
		Occurrence: &launch.Occurrence{Kind: launch.Sensor, ID: sensor.SensorID, Event: c.event, Within: c.within},
	}, err
}

func unregistered(sensor *Sensor, err error) error {
	return errs.Wrap(errs.Unprocessable, err, "Flow '%s' is not registered", sensor.FlowName)
}
