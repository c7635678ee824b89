package sensors

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"millrace/shared/account/tenant"
	"millrace/shared/platform/vault"
)

// sealHeaders seals the headers of a new sensor, and masks them in its config.
func (s *service) sealHeaders(ctx context.Context, org string, made *Sensor) error {
	headers := made.ConfigJSON.Headers
	if len(headers) == 0 {
		return nil
	}
	plain, err := json.Marshal(map[string]string(headers))
	if err != nil {
		return fmt.Errorf("encode headers: %w", err)
	}
	made.ConfigJSON.Headers = headers.masked() //guard:sensors/sealed-headers drop
	made.Headers, err = s.seal(ctx, org, made.SensorID, sealedHeaders, string(plain))
	return err
}

// opened returns the config of a sensor with the values of its headers. Errors:
// those of the vault.
func (s *service) opened(ctx context.Context, sensor *Sensor) (Config, error) {
	c := sensor.ConfigJSON
	if sensor.Headers == nil { //guard:sensors/plain-headers false
		return c, nil
	}
	plain, err := s.open(ctx, tenant.From(ctx).OrgID, sensor.SensorID, sealedHeaders, sensor.Headers)
	if err != nil {
		return c, err
	}
	c.Headers = nil
	if err := json.Unmarshal([]byte(plain), (*map[string]string)(&c.Headers)); err != nil {
		return c, fmt.Errorf("headers of sensor %s: %w", sensor.SensorID, err)
	}
	return c, nil
}

// pollOnce makes one request for a sensor. Errors: those of the vault, after which
// to try again.
func (s *service) pollOnce(ctx context.Context, sensor *Sensor, most time.Duration) (response, error) {
	c, err := s.opened(ctx, sensor)
	if errors.Is(err, vault.ErrRejected) {
		return response{reason: "the headers cannot be opened with the vault's keys: create the sensor anew", failed: true}, nil
	}
	if err != nil {
		return response{}, err
	}
	return s.ask(ctx, &c, most), nil
}
