package auth

import (
	"net/http"

	"millrace/shared/account/identity"
	"millrace/shared/account/tenant"
	"millrace/shared/platform/clock"
	"millrace/shared/web/fn"
	"millrace/shared/web/httpapi"
)

// LoginRequest is the body of POST /auth/login.
type LoginRequest struct {
	Email string `json:"email" minLength:"1" maxLength:"254" example:"ann@example.com" doc:"The email that the credential proves"`
}

// LoginResponse is the answer of POST /auth/login.
type LoginResponse struct {
	AccessToken string       `json:"access_token" doc:"Valid for 24 hours"`
	TokenType   string       `json:"token_type" enum:"Bearer"`
	ExpiresAt   clock.Millis `json:"expires_at"`
}

// LogoutResponse is the answer of POST /auth/logout.
type LogoutResponse struct {
	Status string `json:"status" enum:"logged_out"`
}

// DeviceStartRequest is the body of POST /auth/device/start.
type DeviceStartRequest struct{}

// DeviceStartResponse is the answer of POST /auth/device/start.
type DeviceStartResponse struct {
	DeviceCode string `json:"device_code" doc:"A secret of the device, for POST /auth/device/token"`
	UserCode   string `json:"user_code" doc:"Eight digits, which the user types at the page /cli-callback"`
	Interval   int    `json:"interval" doc:"Seconds to wait between two requests for the token"`
	ExpiresIn  int    `json:"expires_in" doc:"Seconds until both codes expire"`
}

// DeviceApproveRequest is the body of POST /auth/device/approve.
type DeviceApproveRequest struct {
	UserCode string `json:"user_code" pattern:"^[0-9]{8}$" maxLength:"8" secret:"true" example:"12345678" doc:"Eight digits"`
}

// DeviceApproveResponse is the answer of POST /auth/device/approve.
type DeviceApproveResponse struct {
	Status    string `json:"status" enum:"approved"`
	UserEmail string `json:"user_email" doc:"Whom the device is signed in as"`
	OrgID     string `json:"org_id" doc:"The workspace that it works in"`
	OrgName   string `json:"workspace_name"`
}

// DeviceTokenRequest is the body of POST /auth/device/token.
type DeviceTokenRequest struct {
	DeviceCode string `json:"device_code" minLength:"1" maxLength:"256" secret:"true" example:"iZCS0Mk7UjhZ8w3Y3kX5zHnEwQe3LZb2aJj5t0QVx7M"`
}

// DeviceTokenResponse is the answer of POST /auth/device/token once the user
// has approved.
type DeviceTokenResponse struct {
	AccessToken string       `json:"access_token" doc:"Valid for 24 hours"`
	ExpiresAt   clock.Millis `json:"expires_at"`
	UserEmail   string       `json:"user_email"`
	OrgID       string       `json:"org_id" doc:"Empty for a user without a workspace"`
	OrgName     string       `json:"workspace_name"`
}

// DeviceTokenPending is the answer of POST /auth/device/token before that.
type DeviceTokenPending struct {
	Status   string `json:"status" enum:"authorization_pending,slow_down" doc:"slow_down: another request redeems the code at the same moment"`
	Interval int    `json:"interval" doc:"Seconds to wait before the next request"`
}

type loginIn struct {
	Authorization string `header:"Authorization" hidden:"true"`
	Body          LoginRequest
}

type deviceStartIn struct{ Body *DeviceStartRequest }

type deviceApproveIn struct{ Body DeviceApproveRequest }

type deviceTokenIn struct{ Body DeviceTokenRequest }

func sessionRoutes(api *httpapi.API, d fn.Deps) {
	sessions := identity.Sessions{Table: d.Table, Clock: d.Clock, Quota: d.Quota}
	s := &sessionService{sessions, identity.Devices{Sessions: sessions, Keys: api.DeriveKeys("user codes")}}
	users := httpapi.Group{API: api, Function: name, Writes: tenant.SessionOnly}
	httpapi.Post(users, "/auth/login", s.login, "Exchange a sign-in token for an access token",
		httpapi.Doc("The credential is a token of the configured identity provider, whose email is that of the body (403). "+
			"An access token gives itself again: there is no refresh, sign in anew when it has expired. "+
			"A user who is in no workspace may sign in and create one."))
	httpapi.Post(users, "/auth/logout", s.logout, "Revoke the user's access tokens",
		httpapi.Doc("All access tokens of the user are refused from then on, and device authorizations that wait to be redeemed. "+
			"API keys stay, and so does the session at the identity provider."))

	devices := httpapi.Group{API: api, Function: name, Name: "auth-device", Writes: tenant.Public}
	httpapi.Post(devices, "/auth/device/start", s.start, "Start the authorization of a device",
		httpapi.Example(`{}`),
		httpapi.Doc("For a command line, or another device without a browser. It shows the user the user_code, which the user types at the page "+
			"`/cli-callback` of this server, signed in, and asks for the token with the device_code meanwhile. "+
			"Both are valid for five minutes, for one token."))
	httpapi.Post(devices, "/auth/device/approve", s.approve, "Approve the authorization of a device",
		httpapi.Access(tenant.SessionOnly), httpapi.Errors(http.StatusNotFound, http.StatusConflict, http.StatusGone),
		httpapi.Doc("The device is signed in as the caller, in the workspace of this request. A wrong code is 404, the eleventh within five minutes "+
			"of a user or an address 429. 409: it was approved before. 410: it has expired or was redeemed."))
	httpapi.Post(devices, "/auth/device/token", s.token, "Redeem the authorization of a device",
		httpapi.Errors(http.StatusGone),
		httpapi.Doc("202 until the user has approved: ask again after `interval` seconds. 200 with the token, once. "+
			"410 for an authorization that is unknown, has expired or was redeemed."))
}
