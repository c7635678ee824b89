package sensors

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"millrace/shared/platform/errs"
)

// Config is what a sensor looks for. The tag of tells the type of sensor that a
// field belongs to; a field of another type is refused. Secret values are
// sealed elsewhere and stored masked.
type Config struct {
	URL             *string         `table:"url,omitempty" json:"url,omitempty" of:"polling" maxLength:"2048" doc:"Of polling sensors: polled by GET"`
	IntervalSeconds *int64          `table:"interval,omitempty" json:"interval_seconds,omitempty" of:"polling" minimum:"30" maximum:"31622400" doc:"Default 300"`
	TimeoutSeconds  *int64          `table:"timeout,omitempty" json:"timeout_seconds,omitempty" of:"polling" minimum:"1" maximum:"30" doc:"Of the request; default 10"`
	ExpectedStatus  *int64          `table:"status,omitempty" json:"expected_status,omitempty" of:"polling" minimum:"100" maximum:"599" doc:"Absent: any 2xx"`
	JSONPath        *string         `table:"path,omitempty" json:"json_path,omitempty" of:"polling" maxLength:"1024" doc:"Of the value in the response that decides: object keys and array indices joined by dots, such as a.b.0.c. A response that is not one JSON document never matches"`
	ExpectedValue   json.RawMessage `table:"value,omitempty" json:"expected_value,omitempty" of:"polling" doc:"What the selected value, or without json_path the whole response, must equal: numbers by value, objects in any order. Absent: the selected value must be truthy, which false, null, zero and empty strings, arrays and objects are not"`
	Headers         Headers         `table:"headers,omitempty" json:"headers,omitempty" of:"polling" doc:"Of the request. Values are shown masked"`
	AllowConcurrent *bool           `table:"concurrent,omitempty" json:"allow_concurrent,omitempty" of:"polling" doc:"true: every match starts a run; otherwise the sensor stops after its first match"`

	Bucket *string `table:"bucket,omitempty" json:"bucket,omitempty" of:"objstore" minLength:"1" maxLength:"255" doc:"Of objstore sensors: its exact name"`
	Prefix *string `table:"prefix,omitempty" json:"prefix,omitempty" of:"objstore" maxLength:"1024" doc:"Of keys"`
	Suffix *string `table:"suffix,omitempty" json:"suffix,omitempty" of:"objstore" maxLength:"1024" doc:"Of keys"`

	HMACSecret      *string `table:"hmac_secret,omitempty" json:"hmac_secret,omitempty" of:"webhook" secret:"true" minLength:"16" maxLength:"1024" doc:"Of webhooks: requests need a signature, the hexadecimal HMAC-SHA-256 of the body by this secret. Shown masked"`
	HMACHeader      *string `table:"hmac_header,omitempty" json:"hmac_header,omitempty" of:"webhook" maxLength:"128" doc:"Header of the signature, which may begin with sha256=; default X-Hub-Signature-256"`
	EventIDHeader   *string `table:"event_header,omitempty" json:"event_id_header,omitempty" of:"webhook" maxLength:"128" doc:"Header of the event's id: an id starts one run in 24 hours, and repeated requests get the first answer"`
	EventIDField    *string `table:"event_field,omitempty" json:"event_id_field,omitempty" of:"webhook" minLength:"1" maxLength:"128" doc:"The same for a top-level field of the body"`
	WebhookRPM      *int64  `table:"rpm,omitempty" json:"webhook_rpm,omitempty" of:"webhook" minimum:"1" doc:"Kept, and not applied"`
	CooldownSeconds *int64  `table:"cooldown,omitempty" json:"cooldown_seconds,omitempty" of:"webhook" minimum:"0" doc:"Kept, and not applied"`
}

// Headers are headers of requests, by name. Their values are secret: they are
// shown and audited masked, by this type, and sealed where they are stored.
type Headers map[string]string

// MarshalJSON shows the names.
func (h Headers) MarshalJSON() ([]byte, error) { return json.Marshal(h.masked()) }

// masked returns the headers without their values.
func (h Headers) masked() map[string]string {
	names := make(map[string]string, len(h))
	for name := range h {
		names[name] = masked
	}
	return names
}

// check returns what is wrong with the config of a sensor of a type, besides
// what the tags say.
func (c *Config) check(sensorType string) []errs.Detail {
	out := c.foreign(sensorType)
	switch sensorType {
	case webhook:
		out = append(out, c.checkWebhook()...)
	case polling:
		out = append(out, c.checkPolling()...)
	case objstore:
		if c.Bucket == nil {
			out = append(out, missing("bucket"))
		}
	}
	return out
}

// foreign returns the fields of other types.
func (c *Config) foreign(sensorType string) (out []errs.Detail) {
	for f, v := range reflect.ValueOf(c).Elem().Fields() {
		if f.Tag.Get("of") != sensorType && !v.IsZero() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			out = append(out, errs.Detail{
				Type: "extra_forbidden", Loc: configLoc(name), Msg: "a " + sensorType + " sensor has no " + name + ", a " + f.Tag.Get("of") + " sensor has",
			})
		}
	}
	return out
}

func (c *Config) checkWebhook() (out []errs.Detail) {
	if c.HMACHeader != nil && c.HMACSecret == nil {
		out = append(out, missing("hmac_secret"))
	}
	if c.EventIDHeader != nil && c.EventIDField != nil {
		out = append(out, fault("event_id_field", "an event's id is either in event_id_header or in event_id_field"))
	}
	for field, header := range map[string]*string{"hmac_header": c.HMACHeader, "event_id_header": c.EventIDHeader} {
		if header != nil && !validHeader(*header) {
			out = append(out, fault(field, "this is not the name of a header"))
		}
	}
	slices.SortFunc(out, func(a, b errs.Detail) int { return strings.Compare(a.Loc[2].(string), b.Loc[2].(string)) })
	return out
}

// validHeader reports whether a text is the name of an HTTP header.
func validHeader(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	})
}

func configLoc(field string) []any { return errs.Body("config_json", field) }

func missing(field string) errs.Detail {
	return errs.Detail{Type: "missing", Loc: configLoc(field), Msg: "Field required"}
}

func fault(field, msg string) errs.Detail {
	return errs.Detail{Type: "value_error", Loc: configLoc(field), Msg: msg}
}
