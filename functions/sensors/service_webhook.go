package sensors

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"millrace/shared/account/identity"
	"millrace/shared/account/quota"
	"millrace/shared/account/tenant"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/table"
	"millrace/shared/web/httpapi"
)

const (
	// remembered is how long the id of a webhook's event is remembered.
	remembered = 24 * time.Hour
	// maxEventID is the longest id of an event in bytes.
	maxEventID = 512
	// defaultSignature is the header of signatures.
	defaultSignature = "X-Hub-Signature-256"
)

// receive starts a run for a request of a webhook. Errors: errs.NotFound for an
// unknown token; errs.TooMany; errs.Forbidden in a suspended workspace;
// errs.Conflict for a disabled sensor; errs.Unauthenticated for a signature that
// is required and is not the body's; errs.Unprocessable as for start.
func (s *service) receive(ctx context.Context, in *webhookIn) (WebhookResponse, error) {
	ctx, sensor, err := s.sensorOf(ctx, in.Token)
	if err != nil {
		return WebhookResponse{}, err
	}
	c, err := s.requested(ctx, &sensor, in.RawBody)
	if err != nil {
		return WebhookResponse{}, err
	}
	run, err := s.start(ctx, &sensor, c)
	return WebhookResponse{Triggered: err == nil, SensorID: sensor.SensorID, FlowName: run.Flow, FlowVersion: run.Version, RunID: run.ID}, err
}

// sensorOf returns the sensor of a token, and a context of its workspace, if it
// takes a request now.
func (s *service) sensorOf(ctx context.Context, token string) (context.Context, Sensor, error) {
	unknown := errs.New(errs.NotFound, "There is no such webhook")
	if len(token) != tokenLength || !strings.HasPrefix(token, tokenPrefix) {
		return ctx, Sensor{}, unknown
	}
	hash := hashToken(token)
	known, err := table.Load[hook](ctx, s.sensors.Table, hookKey(hash), table.Consistent)
	if errors.Is(err, table.ErrNotFound) {
		return ctx, Sensor{}, unknown
	}
	if err != nil {
		return ctx, Sensor{}, err
	}
	if err := s.quota.Rate(ctx, quota.Webhooks, hookID(hash)); err != nil {
		return ctx, Sensor{}, err
	}
	workspace, err := identity.GetWorkspace(ctx, s.sensors.Table, known.Org)
	if err != nil {
		return ctx, Sensor{}, err
	}
	if workspace.Suspended {
		return ctx, Sensor{}, errs.New(errs.Forbidden, "Access is suspended")
	}
	ctx = httpapi.ActFor(ctx, known.Org)
	sensor, found, err := s.sensors.Find(ctx, known.Sensor)
	switch {
	case err != nil:
		return ctx, sensor, err
	case !found: // it was deleted just now
		return ctx, sensor, unknown
	case !sensor.Enabled:
		return ctx, sensor, errs.New(errs.Conflict, "The sensor '%s' is disabled", sensor.Name)
	}
	return ctx, sensor, nil
}

// requested returns what a request asks for.
func (s *service) requested(ctx context.Context, sensor *Sensor, body []byte) (c cause, err error) {
	if err := s.checkSignature(ctx, sensor, body); err != nil {
		return c, err
	}
	fields, err := httpapi.Fields(body)
	if err != nil {
		return c, err
	}
	c.offered = fields
	if given := fields["parameters"]; len(given) > 0 && given[0] == '{' {
		c.offered = nil
		if err := json.Unmarshal(given, &c.parameters); err != nil {
			return c, err
		}
	}
	c.within = remembered
	c.event, err = eventID(ctx, &sensor.ConfigJSON, fields)
	return c, err
}

// checkSignature checks the signature of a request's body, if the sensor
// requires one.
func (s *service) checkSignature(ctx context.Context, sensor *Sensor, body []byte) error {
	if len(sensor.HMAC) == 0 {
		return nil
	}
	secret, err := s.open(ctx, tenant.From(ctx).OrgID, sensor.SensorID, sealedHMAC, sensor.HMAC)
	if err != nil {
		return err
	}
	header := defaultSignature
	if sensor.ConfigJSON.HMACHeader != nil {
		header = *sensor.ConfigJSON.HMACHeader
	}
	sent, err := hex.DecodeString(strings.TrimPrefix(httpapi.HeaderFrom(ctx).Get(header), "sha256="))
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	if err != nil || !hmac.Equal(sent, mac.Sum(nil)) { //guard:webhook/signature false
		return errs.New(errs.Unauthenticated, "The header %s is not the signature of the body", header)
	}
	return nil
}

// eventID returns the id of a request's event, "" if the sensor does not ask for
// one.
func eventID(ctx context.Context, c *Config, fields map[string]json.RawMessage) (id string, err error) {
	var place string
	switch {
	case c.EventIDHeader != nil:
		place = "header " + *c.EventIDHeader
		id = httpapi.HeaderFrom(ctx).Get(*c.EventIDHeader)
	case c.EventIDField != nil:
		place = "field " + *c.EventIDField
		raw := fields[*c.EventIDField]
		switch {
		case len(raw) == 0 || strings.ContainsRune("{[ntf", rune(raw[0])):
		case raw[0] == '"':
			err = json.Unmarshal(raw, &id)
		default: // a number
			id = string(raw)
		}
	default:
		return "", nil
	}
	if err != nil || id == "" || len(id) > maxEventID {
		return "", errs.Validation(errs.Detail{
			Type: "value_error", Loc: errs.Body(), Msg: "the sensor requires the event's id in the " + place + ": a text of 1 to 512 bytes, or a number",
		})
	}
	return id, nil
}
