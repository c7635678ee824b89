package sensors

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"

	"millrace/shared/account/quota"
	"millrace/shared/kit/due"
	"millrace/shared/kit/record"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/ids"
	"millrace/shared/platform/table"
	"millrace/shared/platform/vault"
)

// Stored items, by partition and sort key:
//
//	<org>#sensors      <sensor_id>        a sensor
//	webhook#<sha256>   webhook            the sensor of a webhook's token
//	bucket#<bucket>    <org>#<sensor_id>  a sensor that watches the bucket

// The types of sensors.
const (
	webhook  = "webhook"
	polling  = "polling"
	objstore = "objstore"
)

// masked replaces a secret value in what is shown.
const masked = "***"

// Sensor is a sensor: what starts runs of a flow.
type Sensor struct {
	record.Meta
	due.Entry      `json:"-"`                 // of a polling sensor that goes on
	SensorID       string                     `table:"id" json:"sensor_id"`
	Name           string                     `table:"name" json:"name"`
	SensorType     string                     `table:"type" json:"sensor_type" enum:"webhook,polling,objstore"`
	FlowName       string                     `table:"flow" json:"flow_name"`
	FlowParamsJSON map[string]json.RawMessage `table:"params,omitempty" json:"flow_params_json"`
	ConfigJSON     Config                     `table:"config" json:"config_json"`
	Enabled        bool                       `table:"enabled" json:"enabled"`
	// WebhookToken is opened where a sensor is created or got. It is not stored,
	// so that lists and audit entries do not have it.
	WebhookToken *string      `table:"-" json:"webhook_token,omitempty" doc:"Of a webhook that was just created or is got by its id: the secret part of its URL, POST /webhooks/{webhook_token}"`
	Token        vault.Sealed `table:"token,omitempty" json:"-"`
	TokenHash    string       `table:"token_hash,omitempty" json:"-"`
	HMAC         vault.Sealed `table:"hmac,omitempty" json:"-"`
	// Headers are those of the config, whose values are masked there. A sensor that
	// was stored before they were sealed has none, and the values in its config.
	Headers     vault.Sealed `table:"headers,omitempty" json:"-"`
	LastErrorAt clock.Millis `table:"last_error_at,omitempty" json:"last_error_at" doc:"null: there was none"`
	LastError   *string      `table:"last_error,omitempty" json:"last_error" doc:"Why an event last made no run, of sensors whose senders are not told"`
	Polls
}

// SchemaName is the name of the schema in the API's description.
func (Sensor) SchemaName() string { return "SensorResponse" }

// Audited returns the sensor as audit entries show it: without parts of the URL
// that may hold credentials.
func (s Sensor) Audited() any {
	s.WebhookToken = nil
	if c := &s.ConfigJSON; c.URL != nil {
		c.URL = new(publicURL(*c.URL))
	}
	return s
}

// publicURL returns a URL without user, query and fragment.
func publicURL(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return masked
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}).String()
}

// sensorKind is the kind of record that sensors are, by id.
var sensorKind = record.Kind{Folder: "sensors", Type: "sensor", Noun: "Sensor", Limit: quota.Sensors}

// tokenPrefix is the prefix of webhook tokens, so that one is recognized
// wherever it is found.
const tokenPrefix = "whk_"

const (
	tokenBytes  = 32                    // random
	tokenLength = len(tokenPrefix) + 43 // of a token, in base64
)

// newToken returns a token of 256 random bits.
func newToken() string { return tokenPrefix + ids.Token(tokenBytes) }

// hashToken returns the stored form of a token.
func hashToken(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// hook is the item by which a token finds its sensor.
type hook struct {
	table.Key
	Org    string `table:"org"`
	Sensor string `table:"sensor"`
}

// hookID is the partition of a webhook, by the hash of its token. Its requests
// are counted by it.
func hookID(hash string) string { return "webhook#" + hash }

func hookKey(hash string) table.Key { return table.Key{PK: hookID(hash), SK: "webhook"} }

// watch is the item by which a bucket finds its sensors. It has what decides
// whether an object matches.
type watch struct {
	table.Key
	Org    string `table:"org"`
	Sensor string `table:"sensor"`
	Prefix string `table:"prefix,omitempty"`
	Suffix string `table:"suffix,omitempty"`
}

func watchKey(bucket, org, id string) table.Key {
	return table.Key{PK: "bucket#" + bucket, SK: org + "#" + id}
}

// found returns the writes that store the items by which events find a sensor.
func (s *Sensor) found(org string) []table.Write {
	switch s.SensorType {
	case webhook:
		return []table.Write{table.Put{Item: hook{hookKey(s.TokenHash), org, s.SensorID}, If: table.IsNew()}}
	case objstore:
		c := &s.ConfigJSON
		return []table.Write{table.Put{Item: watch{watchKey(text(c.Bucket), org, s.SensorID), org, s.SensorID, text(c.Prefix), text(c.Suffix)}}}
	}
	return nil
}

// lost returns the writes that remove what found stores.
func (s *Sensor) lost(org string) []table.Write {
	switch s.SensorType {
	case webhook:
		return []table.Write{table.Delete{Key: hookKey(s.TokenHash)}}
	case objstore:
		return []table.Write{table.Delete{Key: watchKey(text(s.ConfigJSON.Bucket), org, s.SensorID)}}
	}
	return nil
}

// The values that are sealed, each for its sensor.
const (
	sealedToken   = "token"
	sealedHMAC    = "hmac"
	sealedHeaders = "headers"
)

// seal seals a value of a sensor.
func (s *service) seal(ctx context.Context, org, id, what, value string) (vault.Sealed, error) {
	sealed, err := s.vault.Seal(ctx, org, "sensor/"+id+"/"+what, []byte(value))
	if err != nil {
		return nil, fmt.Errorf("seal %s of sensor %s: %w", what, id, err)
	}
	return sealed, nil
}

// open opens a value of a sensor.
func (s *service) open(ctx context.Context, org, id, what string, sealed vault.Sealed) (string, error) {
	value, err := s.vault.Open(ctx, org, "sensor/"+id+"/"+what, sealed)
	if err != nil {
		return "", fmt.Errorf("open %s of sensor %s: %w", what, id, err)
	}
	return string(value), nil
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
