package httpapi

import (
	"sync"

	"github.com/danielgtaylor/huma/v2"
)

// setupHuma sets what huma keeps in package variables, once. Nothing else in
// the service uses huma directly.
var setupHuma = sync.OnceFunc(func() {
	huma.NewErrorWithContext = func(ctx huma.Context, status int, msg string, errs ...error) huma.StatusError {
		return fromHuma(callFrom(ctx.Context()), status, msg, errs)
	}
	huma.NewError = func(status int, msg string, errs ...error) huma.StatusError {
		return fromHuma(&call{}, status, msg, errs)
	}
	huma.ValidateStrictCasing = true
	huma.DefaultArrayNullable = false
})

// humaConfig leaves huma the routing, the parameters and the description; the
// frame itself validates bodies and serves the documents.
func (a *API) humaConfig() huma.Config {
	json := huma.Format{Marshal: writeAnswer, Unmarshal: decodeInto}
	return huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info:    &huma.Info{Title: a.config.Title, Version: a.config.Version, Description: description},
			Components: &huma.Components{
				Schemas: huma.NewMapRegistry("#/components/schemas/", a.names.name),
				SecuritySchemes: map[string]*huma.SecurityScheme{
					bearerScheme: {Type: "http", Scheme: "bearer", Description: "An access token, or an API key (svc_…)."},
				},
			},
		},
		Formats:       map[string]huma.Format{"application/json": json, "json": json},
		DefaultFormat: "application/json",
	}
}
