package sensors

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"millrace/events"
	"millrace/shared/account/quota"
	"millrace/shared/account/tenant"
	"millrace/shared/kit/consumer"
	"millrace/shared/kit/record"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/queue/batch"
	"millrace/shared/platform/table"
	"millrace/shared/platform/telemetry"
	"millrace/shared/web/fn"
)

// atOnce is how many sensors one message starts runs of at once.
const atOnce = 8

// noteEvery is how often the same failure of a sensor is noted.
const noteEvery = time.Minute

// objectHandler starts runs for objects that were stored.
type objectHandler struct {
	*service
	log *slog.Logger
}

func objectMessages(d fn.Deps) fn.MessageHandler {
	h := &objectHandler{newService(d), d.Log}
	return batch.Handler{Queues: d.Queues, Log: d.Log, Do: h.message}.Messages
}

// message handles a message of S3. If a sensor's run could not be started now,
// the message is delivered again, which starts no run twice.
func (h *objectHandler) message(ctx context.Context, m batch.Message) error {
	objects, err := events.ReadObjects(m.Body)
	if err != nil {
		if m.Receives <= 1 {
			h.log.ErrorContext(ctx, "message is no event of S3, it becomes a dead letter", "message", m.MessageId, "error", err)
		}
		return batch.RetryAfter(time.Second, err)
	}
	for i := range objects {
		if o := &objects[i]; o.Created() && o.Bucket != h.bucket {
			err = errors.Join(err, h.stored(ctx, o))
		}
	}
	return err
}

// stored starts a run of each sensor that an object matches. The error is that
// of one that could not be started now, after all others were.
func (h *objectHandler) stored(ctx context.Context, o *events.Object) error {
	var group errgroup.Group
	group.SetLimit(atOnce)
	q := table.Query{PK: watchKey(o.Bucket, "", "").PK, Consistent: true}
	for item, err := range table.All(ctx, h.sensors.Table, q) {
		var w watch
		if err == nil {
			err = table.Unmarshal(item, &w)
		}
		if err != nil {
			return errors.Join(err, group.Wait())
		}
		if strings.HasPrefix(o.Key, w.Prefix) && strings.HasSuffix(o.Key, w.Suffix) {
			group.Go(func() error {
				return batch.Recover(ctx, h.log, func() error { return h.startFor(ctx, w, o) })
			})
		}
	}
	return group.Wait()
}

// startFor starts the run of a sensor for an object. Errors: those for which it has
// to be tried again; any other is noted at the sensor.
func (h *objectHandler) startFor(ctx context.Context, w watch, o *events.Object) error {
	subject := telemetry.From(ctx)
	subject.Workspace = w.Org
	ctx = tenant.With(telemetry.With(ctx, &subject), tenant.Principal{OrgID: w.Org})
	sensor, found, err := h.sensors.Find(ctx, w.Sensor)
	if err != nil || !found || !sensor.Enabled {
		return err
	}
	c := cause{event: eventOf(o), within: consumer.Retention}
	if c.injected, err = injected(o.Bucket, o.Key); err != nil {
		return err
	}
	_, err = h.start(ctx, &sensor, c)
	switch code := errs.CodeOf(err); {
	case err == nil:
		return nil
	case errors.Is(err, table.ErrConflict): // another is making the run
		return err
	case errors.Is(err, quota.ErrMonth): // a message cannot wait for weeks
		return h.note(ctx, &sensor, err)
	case code == errs.TooMany:
		return errors.Join(err, h.note(ctx, &sensor, err))
	case code == errs.Invalid, code == errs.Unprocessable, code == errs.Conflict:
		return h.note(ctx, &sensor, err)
	}
	h.log.ErrorContext(ctx, "run of an object not started", "sensor_id", sensor.SensorID, "error", err)
	return err
}

// note stores why an event of a sensor made no run, whose sender is not told.
func (s *service) note(ctx context.Context, sensor *Sensor, cause error) error {
	now, reason := s.clock.Now(), errs.Text(cause)
	if text(sensor.LastError) == reason && now.Sub(sensor.LastErrorAt.Time()) < noteEvery {
		return nil
	}
	_, err := s.sensors.Table.Update(ctx, table.Update{Key: sensor.Key, If: table.IsStored(), Do: []table.Action{
		record.Touch(now), table.Set("last_error", reason), table.Set("last_error_at", clock.ToMillis(now)),
	}})
	if errors.Is(err, table.ErrConditionFailed) {
		return nil
	}
	return err
}

// eventOf returns the id of an object's event. S3 delivers an event more than
// once with the same sequencer; storing an object again, even the same content,
// has another one. Stores without sequencers tell events apart by version, or
// else by time and content.
func eventOf(o *events.Object) string {
	id := o.Bucket + "/" + o.Key + "#"
	switch {
	case o.Sequencer != "":
		return id + o.Sequencer
	case o.VersionID != "":
		return id + "version:" + o.VersionID
	}
	return id + "etag:" + o.ETag + "@" + clock.Format(o.Time)
}

// injected returns the parameters that tell a run of its object.
func injected(bucket, key string) (map[string]json.RawMessage, error) {
	out := map[string]json.RawMessage{}
	for name, value := range map[string]string{"objstore_bucket": bucket, "objstore_key": key} {
		raw, err := json.Marshal(value)
		if err != nil {
			return nil, err
		}
		out[name] = raw
	}
	return out, nil
}
