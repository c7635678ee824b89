package environments

import (
	"encoding/json"

	"millrace/shared/run/registry"
)

// VariablesPutRequest is the body of PUT /environments/{env_name}/variables.
type VariablesPutRequest struct {
	Variables map[string]string `json:"variables" example:"{\"REGION\":\"eu\",\"BATCH\":\"500\"}" doc:"Up to 200, values up to 4 KB. Replaces all"`
}

// VariablesPatchRequest is the body of PATCH /environments/{env_name}/variables.
type VariablesPatchRequest struct {
	Variables map[string]json.RawMessage `json:"variables" example:"{\"REGION\":\"us\",\"BATCH\":null}" doc:"Texts up to 4 KB; null deletes"`
}

// VariableToggleRequest is the body of POST …/variables/{var_key}/toggle.
type VariableToggleRequest struct {
	Enabled *bool `json:"enabled,omitempty" example:"false" doc:"Absent: what it is not now"`
}

// VariablesResponse lists variables in order of their keys.
type VariablesResponse struct {
	Items []registry.Variable `json:"items"`
}

// DeletedVariable tells what was deleted.
type DeletedVariable struct {
	Status string `json:"status" enum:"deleted"`
	Key    string `json:"key"`
}

// VariablePath identifies a variable.
type VariablePath struct {
	Path
	Key string `path:"var_key" pattern:"^[A-Za-z_][A-Za-z0-9_]*$" maxLength:"128"`
}

type (
	putVariablesIn struct {
		Path
		Body VariablesPutRequest
	}
	patchVariablesIn struct {
		Path
		Body VariablesPatchRequest
	}
	toggleVariableIn struct {
		VariablePath
		Body *VariableToggleRequest
	}
)
