package httpapi

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"millrace/shared/account/tenant"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/table"
)

// maxCredential is the largest accepted bearer credential in bytes. Sign-in
// tokens with many claims are the longest.
const maxCredential = 16 << 10

// authorized wraps an operation: authentication, then access check, before the
// request is read.
func (a *API) authorized(op *Operation, serve func(context.Context, *call, http.ResponseWriter, *http.Request)) http.HandlerFunc {
	mutation := op.mutates()
	return func(w http.ResponseWriter, r *http.Request) {
		ctx := r.Context()
		c := callFrom(ctx)
		c.op = op
		c.request.Path = op.Path
		c.subject.Operation = op.ID
		if c.subject.Function == "" { // one process serves all functions
			c.subject.Function = op.Function
		}
		ctx = tenant.WithRequest(ctx, c.request)
		if op.reclaims() {
			ctx = table.Reclaiming(ctx)
		}
		ctx, err := a.admit(ctx, c, r, mutation)
		if err != nil {
			a.answer(ctx, err).write(w)
			return
		}
		if d, ok := unreadable(r.URL); ok {
			toAnswer(errs.Validation(d)).write(w)
			return
		}
		serve(ctx, c, w, r)
	}
}

// orgParam is the path parameter that names the workspace of a request.
const orgParam = "org_id"

// pathOrg returns the workspace that a request's path names, "" if it names
// none.
func pathOrg(r *http.Request) string {
	return pathParam(r, orgParam)
}

// otherOrg is the error of a path that names a workspace other than the one in
// which the request acts. It does not tell whether that workspace exists.
func otherOrg() error {
	return errs.New(errs.Forbidden, "Permission denied: the path names a workspace in which this credential does not act")
}

// admit authenticates the caller and checks access.
func (a *API) admit(ctx context.Context, c *call, r *http.Request, mutation bool) (context.Context, error) {
	if c.op.Access.IsPublic() {
		if c.op.Credential == nil {
			return ctx, nil
		}
		bearer, _ := bearerOf(r.Header.Get("Authorization"))
		return ctx, c.op.Credential(ctx, bearer)
	}
	p, err := a.authenticate(ctx, r, mutation)
	if err == nil {
		c.principal, c.subject.Workspace = p, p.OrgID
		ctx = tenant.With(ctx, p)
		err = c.op.Access.Check(p)
		if org := pathOrg(r); err == nil && org != "" && org != p.OrgID { //guard:tenant/path false
			err = otherOrg()
		}
	}
	if err == nil && a.config.Limiter != nil { //guard:limit/requests false
		err = a.config.Limiter.Request(ctx, p, mutation)
	}
	return ctx, err
}

func (a *API) authenticate(ctx context.Context, r *http.Request, mutation bool) (tenant.Principal, error) {
	bearer, ok := bearerOf(r.Header.Get("Authorization"))
	if !ok {
		return tenant.Principal{}, errs.New(errs.Unauthenticated, "Not authenticated")
	}
	if a.config.Authenticator == nil || len(bearer) > maxCredential {
		return tenant.Principal{}, errs.New(errs.Unauthenticated, "Invalid credential")
	}
	selected := r.Header.Get("X-Org-Id")
	if org := pathOrg(r); org != "" && selected == "" {
		// The path selects the workspace as well. If it cannot, admit says so.
		selected, mutation = org, false
	}
	return a.config.Authenticator.Authenticate(ctx, bearer, selected, mutation)
}

// bearerOf returns the credential of an Authorization header.
func bearerOf(header string) (string, bool) {
	scheme, credential, _ := strings.Cut(header, " ")
	credential = strings.TrimSpace(credential)
	if !strings.EqualFold(scheme, "Bearer") || credential == "" || strings.ContainsFunc(credential, notToken) {
		return "", false
	}
	return credential, true
}

func notToken(r rune) bool { return r <= ' ' || r >= 0x7F }

// unreadable reports text in path or query that is invalid in any name or
// value: invalid UTF-8, NUL, and control characters in the path.
func unreadable(u *url.URL) (errs.Detail, bool) {
	if !utf8.ValidString(u.Path) || strings.ContainsFunc(u.Path, unicode.IsControl) {
		return errs.Detail{Type: "string_unicode", Loc: []any{"path"}, Msg: "Input should be valid UTF-8 without control characters"}, true
	}
	if plainQuery(u.RawQuery) {
		return errs.Detail{}, false
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return errs.Detail{Type: "value_error", Loc: []any{"query"}, Msg: "Input should be a valid query string"}, true
	}
	for name, values := range query {
		for _, v := range append(values, name) {
			if !utf8.ValidString(v) || strings.ContainsRune(v, 0) {
				return errs.Detail{Type: "string_unicode", Loc: []any{"query", strings.ToValidUTF8(clip(name), "�")}, Msg: "Input should be valid UTF-8"}, true
			}
		}
	}
	return errs.Detail{}, false
}

// plainQuery reports whether a query has no characters that need checking.
func plainQuery(raw string) bool {
	for i := range len(raw) {
		if c := raw[i]; c == '%' || c == ';' || c < ' ' || c >= 0x7F {
			return false
		}
	}
	return true
}
