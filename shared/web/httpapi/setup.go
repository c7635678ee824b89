package httpapi

import (
	"cmp"
	"reflect"
	"sync"
	"time"

	"millrace/shared/platform/clock"

	"github.com/danielgtaylor/huma/v2"
)

// setupHuma sets huma's package variables, once. The framework uses huma for
// schemas of types and for the form of an OpenAPI document; no other package
// uses huma directly.
var setupHuma = sync.OnceFunc(func() {
	huma.DefaultArrayNullable = false
})

// newDocument returns a description without operations.
func newDocument(c *Config, names *namer) *huma.OpenAPI {
	schemas := huma.NewMapRegistry("#/components/schemas/", names.name)
	schemas.RegisterTypeAlias(reflect.TypeFor[clock.Millis](), reflect.TypeFor[time.Time]())
	return &huma.OpenAPI{
		OpenAPI: "3.1.0",
		Info: &huma.Info{
			Title: c.Title, Version: c.Version, Description: description,
			License: &huma.License{Name: "Proprietary", Identifier: "LicenseRef-Proprietary"},
		},
		Servers: []*huma.Server{{URL: cmp.Or(c.URL, "/")}},
		Components: &huma.Components{
			Schemas: schemas,
			SecuritySchemes: map[string]*huma.SecurityScheme{
				bearerScheme: {Type: "http", Scheme: "bearer", Description: "An access token, or an API key (svc_…)."},
			},
		},
	}
}
