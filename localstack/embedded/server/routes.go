package server

import (
	"net/http"
	"strings"

	"millrace/localstack/embedded/signin"
	"millrace/localstack/localhost"
)

// Paths besides the API, which deployments do not have.
const (
	localPrefix  = "/_local/"
	invokePrefix = "/2015-03-31/functions/"
)

// routes combines the API and the local routes. All paths below the local
// prefix require the local secret, except those by which browsers sign in, who
// are asked for a one-time code; an invocation checks its credential itself,
// which may be a signature of its body.
func routes(api http.Handler, issuer *signin.Issuer, keys localhost.Keys, functions *functions, backup, members, backfills, state http.HandlerFunc) http.Handler {
	mux := http.NewServeMux()
	issuer.Mount(mux)
	mux.HandleFunc("POST "+invokePrefix+"{name}/invocations", functions.invoke)
	mux.HandleFunc("GET "+localPrefix+"metrics", functions.totals)
	mux.HandleFunc("GET "+StatePath, state)
	mux.HandleFunc("POST "+BackupPath, backup)
	mux.HandleFunc("POST "+MembersPath, members)
	mux.HandleFunc("POST "+BackfillsPath, backfills)
	local, open := localhost.Only(keys.Bearer(mux)), localhost.Only(mux)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch path := r.URL.Path; {
		case path == signin.DiscoveryPath, path == signin.KeysPath:
			mux.ServeHTTP(w, r)
		case signin.ForBrowsers(path):
			open.ServeHTTP(w, r)
		case strings.HasPrefix(path, localPrefix):
			local.ServeHTTP(w, r)
		case strings.HasPrefix(path, invokePrefix):
			open.ServeHTTP(w, r)
		default:
			api.ServeHTTP(w, r)
		}
	})
}
