package secrets

import (
	"millrace/shared/account/tenant"
	"millrace/shared/kit/record"
	"millrace/shared/run/secret"
	"millrace/shared/web/fn"
	"millrace/shared/web/httpapi"
)

// SecretCreateRequest is the body of POST /secrets.
type SecretCreateRequest struct {
	Name        string            `json:"name" pattern:"^[A-Za-z_][A-Za-z0-9_]*$" maxLength:"128" example:"WAREHOUSE_PASSWORD"`
	Value       string            `json:"value" minLength:"1" secret:"true" example:"correct horse battery staple" doc:"1 byte to 64 KB"`
	Environment *string           `json:"environment,omitempty" is:"name" example:"production" doc:"null: the workspace's own secret, the fallback of every environment"`
	Description string            `json:"description,omitempty" maxLength:"4096" example:"Reads the warehouse"`
	Tags        map[string]string `json:"tags,omitempty" doc:"Up to 50"`
}

// SecretUpdateRequest is the body of PUT /secrets/{secret_name}.
type SecretUpdateRequest struct {
	Value       string  `json:"value" minLength:"1" secret:"true" example:"correct horse battery staple" doc:"1 byte to 64 KB"`
	Environment *string `json:"environment,omitempty" is:"name" doc:"Same as the query parameter"`
}

// SecretMetadataPatchRequest is the body of PATCH /secrets/{secret_name}.
// Fields that are absent or null are not changed.
type SecretMetadataPatchRequest struct {
	Description *string            `json:"description,omitempty" maxLength:"4096" example:"Reads the warehouse"`
	Tags        *map[string]string `json:"tags,omitempty" doc:"Up to 50. Replaces all tags"`
}

// SecretCopyRequest is the body of POST /secrets/copy.
type SecretCopyRequest struct {
	Name              string  `json:"name" pattern:"^[A-Za-z_][A-Za-z0-9_]*$" maxLength:"128" example:"WAREHOUSE_PASSWORD"`
	SourceEnvironment *string `json:"source_environment" is:"name" example:"staging" doc:"null: the workspace's own"`
	TargetEnvironment *string `json:"target_environment" is:"name" example:"production" doc:"null: the workspace's own"`
	Overwrite         bool    `json:"overwrite,omitempty" doc:"Replaces an existing secret by a new version; without it an existing one is 409"`
}

// SecretValueResponse is a secret's value.
type SecretValueResponse struct {
	Name        string  `json:"name"`
	Environment *string `json:"environment"`
	Version     int     `json:"version"`
	Value       string  `json:"value"`
}

// DeletedSecret identifies the deleted secret.
type DeletedSecret struct {
	Status      string  `json:"status" enum:"deleted"`
	Name        string  `json:"name"`
	Environment *string `json:"environment"`
}

// SecretListResponse lists secrets.
type SecretListResponse struct {
	Items     []secret.Secret `json:"items"`
	NextToken string          `json:"next_token,omitempty" doc:"Absent at the end"`
}

// Path identifies a secret by path and query.
type Path struct {
	Name        string  `path:"secret_name" pattern:"^[A-Za-z_][A-Za-z0-9_]*$" maxLength:"128"`
	Environment *string `query:"environment" is:"name" doc:"Absent: the workspace's own secret, otherwise the only one with the name; 422 with their environments if there are several"`
}

type (
	createIn struct{ Body SecretCreateRequest }
	copyIn   struct{ Body SecretCopyRequest }
	listIn   struct {
		Environment *string `query:"environment" is:"name" doc:"Only secrets of this environment; absent: all"`
		Limit       int     `query:"limit" minimum:"1" maximum:"1000" default:"100"`
		NextToken   string  `query:"next_token" maxLength:"4096"`
	}
	updateIn struct {
		Path
		Body SecretUpdateRequest
	}
	patchIn struct {
		Path
		Body SecretMetadataPatchRequest
	}
)

func routes(api *httpapi.API, d fn.Deps) {
	s := &service{
		secrets:  record.New[secret.Secret](secret.Kind, d.Records()),
		vault:    d.Vault,
		registry: d.Registry(),
		cursors:  api.Cursors(),
	}
	g := httpapi.Group{API: api, Function: name, Reads: tenant.Needs(tenant.SecretsRead), Writes: tenant.Needs(tenant.SecretsWrite)}
	const one = "/secrets/{secret_name}"
	httpapi.Post(g, "/secrets", s.create, "Create a secret", httpapi.Status(201), httpapi.Errors(409),
		httpapi.Doc("The value is sealed for this workspace, environment and name, and returned only by GET …/value. An existing secret is 409: use PUT to change its value. An unknown environment is 422, here as in all operations that name one but the list."))
	httpapi.Get(g, "/secrets", s.list, "List secrets", httpapi.Errors(400), httpapi.Doc("Ordered by name and environment, without values."))
	httpapi.Post(g, "/secrets/copy", s.copy, "Copy a secret to another environment", httpapi.Status(201), httpapi.Errors(404, 409),
		httpapi.Doc("Includes description and tags; the value is sealed again for the target."))
	httpapi.Get(g, one, s.get, "Get a secret without its value")
	httpapi.Put(g, one, s.update, "Update a secret's value", httpapi.Errors(409),
		httpapi.Doc("Creates a new version, which tasks that start from then on receive."))
	httpapi.Patch(g, one, s.patch, "Change a secret's description and tags", httpapi.Errors(409))
	httpapi.Delete(g, one, s.delete, "Delete a secret", httpapi.Doc("Tasks that use it fail from then on, unless the workspace has a secret of the same name."))
	httpapi.Get(g, one+"/value", s.value, "Read a secret's value", httpapi.Doc("Each call is recorded in the audit log."))
}
