package runs

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"millrace/shared/run/launch"
	"millrace/shared/run/tier"
)

// RunRequest is the body of POST /runs.
type RunRequest struct {
	Deployment    *string                     `json:"deployment,omitempty" is:"name or empty" doc:"Selects flow, version, environment and tier; decides over flow_name and flow_version"`
	FlowName      *string                     `json:"flow_name,omitempty" is:"name or empty" doc:"With flow_version; required without deployment"`
	FlowVersion   *string                     `json:"flow_version,omitempty" is:"name or empty" doc:"With flow_name; required without deployment"`
	Environment   *string                     `json:"environment,omitempty" is:"name or empty" doc:"Absent: the deployment's, else default"`
	Parameters    *map[string]json.RawMessage `json:"parameters,omitempty" doc:"Checked against the flow's schema, whose defaults apply; over the deployment's. Keys that begin with __svc_ are reserved; up to 256 KB"`
	ExecutionMode *string                     `json:"execution_mode,omitempty" maxLength:"64" doc:"nano, micro, small, medium, large or xlarge, for this run and all its tasks; absent: a task's own tier, else the deployment's, else the flow version's. Another is 400"`
	Execute       bool                        `json:"execute,omitempty" doc:"Wait until the run has ended and answer its detail"`
}

// launch converts the request to the launcher's. Errors: errs.Invalid for an
// unsupported runtime.
func (r *RunRequest) launch(key string, tiers tier.Set) (launch.Request, error) {
	out := launch.Request{
		Deployment: orEmpty(r.Deployment), Flow: orEmpty(r.FlowName), Version: orEmpty(r.FlowVersion),
		Environment: orEmpty(r.Environment), Mode: orEmpty(r.ExecutionMode), Trigger: launch.Manual, Key: key,
	}
	if r.Parameters != nil {
		out.Parameters = *r.Parameters
	}
	if out.Mode != "" {
		if _, err := tiers.Parse(out.Mode); err != nil {
			return launch.Request{}, err
		}
	}
	if key != "" {
		print, err := fingerprint(r)
		if err != nil {
			return launch.Request{}, err
		}
		out.Fingerprint = print
	}
	return out, nil
}

// fingerprint returns a hash of a request's content, independent of the order
// of keys and of white space.
func fingerprint(r *RunRequest) (string, error) {
	raw, err := json.Marshal(r)
	if err != nil {
		return "", fmt.Errorf("fingerprint: %w", err)
	}
	content, err := decode(raw)
	if err != nil {
		return "", fmt.Errorf("fingerprint: %w", err)
	}
	if raw, err = json.Marshal(content); err != nil { // sorts the keys of objects
		return "", fmt.Errorf("fingerprint: %w", err)
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:]), nil
}

// decode decodes JSON and keeps all digits of numbers.
func decode(raw json.RawMessage) (any, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	err := d.Decode(&v)
	return v, err
}

func orEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
