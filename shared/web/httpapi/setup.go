package httpapi

import (
	"cmp"
	"reflect"
	"sync"
	"time"

	"millrace/shared/platform/clock"

	"github.com/danielgtaylor/huma/v2"
)

// setupHuma sets what huma keeps in package variables, once. The frame has its
// schemas of types from huma, and its form of an OpenAPI document; nothing else in
// the service uses huma directly.
var setupHuma = sync.OnceFunc(func() {
	huma.DefaultArrayNullable = false
})

// newDocument is a description without operations.
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
