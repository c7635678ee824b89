package catalog

import (
	"fmt"
	"slices"

	"millrace/shared/account/identity"
	"millrace/shared/account/quota"
	"millrace/shared/platform/blob"
	"millrace/shared/platform/keyring"
	"millrace/shared/platform/notify"
	"millrace/shared/run/runlog"
	"millrace/shared/web/cors"
	"millrace/shared/web/fn"
	"millrace/shared/web/httpapi"
)

// Settings are the settings of a service besides its drivers.
type Settings struct {
	SignIn      *identity.SignIn    // verifies tokens of the web sign-in; nil: API keys only
	SuperAdmins []string            // emails of the platform's administrators
	CursorKeys  *keyring.Ring       // sign list cursors; of at least 16 bytes
	Limits      quota.Values        // that differ from the defaults
	Unlimited   bool                // disables all limits
	Chance      func(n int64) int64 // draws the sizes of slices; nil: random
	Traces      blob.Store          // stores exception traces; nil: they are only logged
	Bodies      *httpapi.Bodies     // bounds the memory of request bodies; nil: unbounded
	Origins     cors.Origins        // of web pages that may use the API
}

// Service is a set of functions with their dependencies.
type Service struct {
	Specs []fn.Spec
	Deps  fn.Deps        // the drivers, and what is built from them
	Frame httpapi.Config // for functions that serve HTTP
}

// Assemble builds the dependencies of functions from drivers: it derives
// everything else from the table, the clock and the object store, and returns
// the configuration of the HTTP framework. It keeps what deps already has.
// Errors: invalid settings.
func Assemble(specs []fn.Spec, deps fn.Deps, s Settings) (*Service, error) {
	if tiers := deps.Config.Tiers; tiers != nil && deps.Queues != nil {
		deps.Queues = reachable{deps.Queues, tiers}
	}
	if deps.Broker == nil {
		deps.Broker = &notify.Broker{}
	}
	writes := slices.ContainsFunc(specs, func(spec fn.Spec) bool { return spec.Needs.Table == fn.Writes })
	if deps.Quota == nil && deps.Table != nil && writes && !s.Unlimited {
		deps.Quota = quota.New(quota.Config{Table: deps.Table, Clock: deps.Clock, Log: deps.Log, Values: s.Limits, Chance: s.Chance})
	}
	if deps.Logs == nil && deps.Table != nil && deps.Blob != nil {
		deps.Logs = &runlog.Store{Table: deps.Table, Blob: deps.Blob, Clock: deps.Clock, Log: deps.Log, Quota: deps.Quota}
	}
	out := &Service{Specs: specs, Deps: deps, Frame: httpapi.Config{
		Title: "Millrace", Version: deps.Config.Version, Clock: deps.Clock, Log: deps.Log, Metrics: deps.Metrics, Spans: deps.Spans,
		CursorKeys: s.CursorKeys, Bodies: s.Bodies, Traces: s.Traces, URL: deps.Config.URL, Origins: s.Origins,
	}}
	if deps.Quota != nil { // a nil *Quota would be a non-nil Limiter
		out.Frame.Limiter = deps.Quota
	}
	if deps.Table == nil {
		return out, nil // public operations only
	}
	auth, err := identity.NewAuthenticator(identity.Config{
		Table: deps.Table, Clock: deps.Clock, SignIn: s.SignIn, SuperAdmins: s.SuperAdmins, Log: deps.Log,
	})
	if err != nil {
		return nil, fmt.Errorf("assemble: %w", err)
	}
	out.Frame.Authenticator = auth
	return out, nil
}

// API returns an API with the operations of all functions.
func (s *Service) API() *httpapi.API {
	api := httpapi.New(s.Frame)
	for _, spec := range s.Specs {
		if spec.Routes != nil {
			spec.Routes(api, s.Deps)
		}
	}
	return api
}

// Messages builds the functions that queues trigger, by queue.
func (s *Service) Messages() map[string]fn.MessageHandler {
	out := map[string]fn.MessageHandler{}
	for _, spec := range s.Specs {
		if spec.Messages == nil {
			continue
		}
		handle := spec.Messages(s.Deps)
		for _, q := range spec.Trigger.Queues {
			out[q.Queue] = handle
		}
		for _, kind := range spec.Trigger.Due {
			out[kind.Queue()] = handle
		}
	}
	return out
}
