package console

import (
	"millrace/shared/account/tenant"
	"millrace/shared/web/fn"
	"millrace/shared/web/httpapi"
)

// manualInput names a page of the manual.
type manualInput struct {
	Page string `path:"page" maxLength:"64" doc:"Name of the page, as flow-spec"`
}

func routes(api *httpapi.API, d fn.Deps) {
	s := newService(api, d.Config.URL)
	g := httpapi.Group{API: api, Function: name, Reads: tenant.Public}
	httpapi.Get(g, "/", s.root, "Redirect to the page", httpapi.Hidden, httpapi.AnyQuery, httpapi.Status(302))
	httpapi.Get(g, "/docs", s.page, "The description as a page", httpapi.Hidden, httpapi.AnyQuery)
	httpapi.Get(g, "/docs/start.js", s.start, "The page's start script", httpapi.Hidden, httpapi.AnyQuery)
	httpapi.Get(g, "/docs/{page}", s.manualPage, "A page of the manual", httpapi.Hidden, httpapi.AnyQuery)
	httpapi.Get(g, scriptPath(), s.script, "The page's library", httpapi.Hidden, httpapi.AnyQuery)
	in := newSignIn(d.Config)
	httpapi.Get(g, "/cli-callback", in.page, "The page that approves a device", httpapi.ID("console-cli-callback"), httpapi.Hidden, httpapi.AnyQuery)
	httpapi.Get(g, "/cli-callback/page.js", in.script, "Its script", httpapi.ID("console-cli-callback-script"), httpapi.Hidden, httpapi.AnyQuery)
	httpapi.Get(g, "/openapi.json", s.openapi, "The description as an OpenAPI 3.1 document", httpapi.Hidden, httpapi.AnyQuery)
}
