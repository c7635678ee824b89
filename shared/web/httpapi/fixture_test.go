package httpapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"log/slog"
	"testing"
	"time"
	"unicode"

	"millrace/shared/account/tenant"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/keyring"
	"millrace/shared/platform/table"
	"millrace/shared/web/httpapi"
)

var epoch = time.Date(2026, 3, 4, 5, 6, 7, 8e6, time.UTC)

// principals maps bearer credentials to principals.
type principals map[string]tenant.Principal

func (p principals) Authenticate(_ context.Context, bearer, org string, mutation bool) (tenant.Principal, error) {
	if bearer == "suspended" {
		return tenant.Principal{}, errs.New(errs.Forbidden, "Access is suspended")
	}
	found, ok := p[bearer]
	switch {
	case !ok:
		return tenant.Principal{}, errs.New(errs.Unauthenticated, "Invalid credential")
	case org != "" && org != found.OrgID && mutation:
		return tenant.Principal{}, errs.New(errs.Forbidden, "Not a member of this workspace")
	}
	return found, nil
}

var known = principals{
	"owner":     {OrgID: "acme", Email: "o@acme.test", Role: tenant.Owner},
	"developer": {OrgID: "acme", Email: "d@acme.test", Role: tenant.Developer},
	"viewer":    {OrgID: "acme", Email: "v@acme.test", Role: tenant.Viewer},
	"super":     {OrgID: "acme", Email: "s@acme.test", Role: tenant.Viewer, SuperAdmin: true},
	"svc_full":  {OrgID: "acme", KeyID: "k1", FullAccess: true},
	"svc_admin": {OrgID: "acme", KeyID: "k2", Scopes: []string{"admin"}},
	"svc_flows": {OrgID: "acme", KeyID: "k3", Scopes: []string{"flows.write"}},
}

type mode string

func (m *mode) UnmarshalText(b []byte) error {
	if s := string(b); s != "fast" && s != "slow" {
		return errors.New("mode is fast or slow")
	}
	*m = mode(b)
	return nil
}

type step struct {
	Name    string   `json:"name" minLength:"1" maxLength:"10" pattern:"^[a-z]+$"`
	Retries int      `json:"retries,omitempty" minimum:"0" maximum:"5" default:"2"`
	After   []string `json:"after,omitempty" maxItems:"2"`
	Sub     *step    `json:"sub,omitempty"`
}

type createBody struct {
	Name     string                     `json:"name" minLength:"1" maxLength:"20"`
	Kind     string                     `json:"kind,omitempty" enum:"nano,micro" default:"nano"`
	Count    int                        `json:"count,omitempty" minimum:"1" maximum:"500"`
	Small    int8                       `json:"small,omitempty"`
	Size     uint32                     `json:"size,omitempty"`
	Ratio    float64                    `json:"ratio,omitempty" exclusiveMinimum:"0" multipleOf:"0.5"`
	Enabled  bool                       `json:"enabled" default:"true"`
	At       time.Time                  `json:"at,omitzero"`
	Mail     string                     `json:"mail,omitempty" format:"email"`
	Mode     mode                       `json:"mode,omitempty"`
	Data     []byte                     `json:"data,omitempty"`
	Steps    []step                     `json:"steps,omitempty" maxItems:"3"`
	Step     *step                      `json:"step,omitempty"`
	Note     *string                    `json:"note,omitempty"`
	Tags     map[string]string          `json:"tags,omitempty" maxProperties:"2"`
	Params   map[string]json.RawMessage `json:"params,omitempty"`
	Anything json.RawMessage            `json:"anything,omitempty"`
	Password string                     `json:"password,omitempty" minLength:"8" secret:"true"`
}

type createInput struct {
	DryRun bool `query:"dry_run"`
	Body   createBody
}

type listInput struct {
	Limit int       `query:"limit" default:"50" minimum:"1" maximum:"500"`
	Mode  string    `query:"mode" enum:"cron,interval"`
	Since time.Time `query:"since"`
	Ratio float64   `query:"ratio" exclusiveMaximum:"2"`
	On    bool      `query:"on"`
	Q     string    `query:"q" required:"true" minLength:"2" maxLength:"4"`
}

type byID struct {
	ID string `path:"id" maxLength:"8"`
}

type textOutput struct {
	Text string `json:"text"`
}

func text(s string) textOutput { return textOutput{Text: s} }

type failInput struct {
	Kind string `path:"kind"`
}

func write(m map[string]int) { m["x"] = 1 }

// fail returns an error of each kind.
func fail(_ context.Context, in *failInput) (textOutput, error) {
	switch in.Kind {
	case "panic":
		panic("boom")
	case "nil-map":
		write(nil)
	case "unwritable":
		return textOutput{}, errs.Wrap(errs.Internal, errors.New("dial 10.0.0.1: password=hunter2"), "the database at 10.0.0.1 is down")
	case "unknown":
		return textOutput{}, errors.New("select * from secrets")
	case "throttled":
		return textOutput{}, table.ErrThrottled
	case "conflict":
		return textOutput{}, &table.TransactionError{Reasons: []table.Reason{{Err: table.ErrConflict}}}
	case "cursor":
		return textOutput{}, table.ErrBadCursor
	case "limit":
		return textOutput{}, table.ErrLimit
	case "late":
		return textOutput{}, context.DeadlineExceeded
	case "quota":
		return textOutput{}, &errs.Error{Code: errs.TooMany, Message: "Too many requests, try again", RetryAfter: 1500 * time.Millisecond}
	case "entries":
		return textOutput{}, errs.Field(errs.Body("tasks", 0, "name"), "x", "Value error, no such task")
	case "empty":
		return textOutput{}, &errs.Error{Code: errs.Conflict}
	}
	return textOutput{}, errs.New(errs.Code(in.Kind), "The message of %s", in.Kind)
}

type unwritable struct {
	Value any `json:"value"`
}

// fixture returns an API with an operation of each kind.
func fixture(tb testing.TB, change func(*httpapi.Config)) *httpapi.API {
	tb.Helper()
	c := httpapi.Config{
		Title: "Fixture", Version: "1", Authenticator: known, CursorKeys: keyring.Static([]byte("0123456789abcdef0123456789abcdef")),
		Clock: clock.Func(func() time.Time { return epoch }), Log: slog.New(slog.NewJSONHandler(io.Discard, nil)),
	}
	if change != nil {
		change(&c)
	}
	a := httpapi.New(c)
	write, read := tenant.Needs(tenant.FlowsWrite), tenant.Needs(tenant.FlowsRead)
	httpapi.Register(a, httpapi.Operation{ID: "things-create", Method: "POST", Path: "/things", Function: "things", Summary: "Create a thing", Status: 201, Access: write},
		func(_ context.Context, in *createInput) (createBody, error) { return in.Body, nil })
	httpapi.Register(a, httpapi.Operation{ID: "things-list", Method: "GET", Path: "/things", Function: "things", Summary: "List things", Access: read},
		func(ctx context.Context, in *listInput) (httpapi.Page[string], error) {
			return httpapi.Page[string]{NextToken: a.Cursors().Seal(ctx, in, "x")}, nil
		})
	httpapi.Register(a, httpapi.Operation{ID: "things-get", Method: "GET", Path: "/things/{id}", Function: "things", Access: read, AnyQuery: true},
		func(_ context.Context, in *byID) (textOutput, error) { return text(in.ID), nil })
	httpapi.Register(a, httpapi.Operation{ID: "things-delete", Method: "DELETE", Path: "/things/{id}", Function: "things", Access: tenant.Needs(tenant.FlowsDelete)},
		func(context.Context, *byID) (httpapi.None, error) { return httpapi.None{}, nil })
	httpapi.Register(a, httpapi.Operation{ID: "fail", Method: "POST", Path: "/fail/{kind}", Function: "failures", Access: write, AnyQuery: true}, fail)
	httpapi.Register(a, httpapi.Operation{ID: "unwritable", Method: "GET", Path: "/unwritable", Function: "failures", Access: read},
		func(context.Context, *httpapi.None) (unwritable, error) { return unwritable{Value: func() {}}, nil })
	httpapi.Register(a, httpapi.Operation{ID: "hook", Method: "POST", Path: "/hooks/{token}", Function: "hooks", Access: tenant.Public},
		func(_ context.Context, in *struct {
			Token   string `path:"token"`
			RawBody []byte
		}) (textOutput, error) {
			if in.Token == "panic" {
				panic("hook")
			}
			return text(string(in.RawBody)), nil
		})
	httpapi.Register(a, httpapi.Operation{ID: "decide", Method: "POST", Path: "/decide", Function: "things", Access: write, Hidden: true},
		func(_ context.Context, in *struct {
			Body *struct {
				Comment string `json:"comment,omitempty"`
			}
		}) (textOutput, error) {
			if in.Body == nil {
				return text("none"), nil
			}
			return text(in.Body.Comment), nil
		})
	httpapi.Register(a, httpapi.Operation{ID: "free", Method: "POST", Path: "/free", Function: "things", Access: write, MaxBody: 64},
		func(_ context.Context, in *struct {
			Body map[string]json.RawMessage
		}) (map[string]json.RawMessage, error) {
			return in.Body, nil
		})
	httpapi.Register(a, httpapi.Operation{ID: "session", Method: "POST", Path: "/session", Function: "auth", Access: tenant.SessionOnly}, who)
	httpapi.Register(a, httpapi.Operation{ID: "platform", Method: "GET", Path: "/platform", Function: "admin", Access: tenant.SuperAdmin}, who)
	httpapi.Register(a, httpapi.Operation{ID: "orgs", Method: "GET", Path: "/orgs", Function: "auth", Access: tenant.Authenticated.Keys("admin")}, who)
	httpapi.Register(a, httpapi.Operation{ID: "backfill", Method: "POST", Path: "/backfill", Function: "runs", Access: tenant.Needs(tenant.RunsTrigger).KeysAlso("flows.write", "admin")}, who)
	httpapi.Register(a, httpapi.Operation{ID: "stream", Method: "GET", Path: "/stream", Function: "things", Access: tenant.Public},
		func(context.Context, *httpapi.None) (httpapi.Stream[createBody], error) {
			return httpapi.Wait(func(context.Context) (createBody, error) { return createBody{Name: "a"}, nil }), nil
		})
	httpapi.Register(a, httpapi.Operation{ID: "letters", Method: "GET", Path: "/letters/{kind}", Function: "things", Access: tenant.Public, AnyQuery: true},
		func(_ context.Context, in *failInput) (httpapi.Stream[httpapi.Items[string]], error) {
			return httpapi.List(letters(in.Kind))
		})
	return a
}

// letters yields the letters of a text, and an error for any other character.
func letters(text string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for _, r := range text {
			var err error
			if !unicode.IsLetter(r) && r != '_' {
				err = errs.New(errs.Conflict, "%q is no letter", r)
			}
			if r != '_' && !yield(string(r), err) || err != nil {
				return
			}
		}
	}
}

func who(ctx context.Context, _ *httpapi.None) (textOutput, error) {
	return text(tenant.From(ctx).Actor() + " " + httpapi.RequestFrom(ctx).Path), nil
}
