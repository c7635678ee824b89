package auth

import (
	"context"
	"strings"

	"millrace/shared/account/identity"
	"millrace/shared/account/tenant"
	"millrace/shared/platform/errs"
	"millrace/shared/web/httpapi"
)

// Seconds between two requests of a device for its token.
const (
	pollInterval = 2
	slowInterval = 3
)

// sessionService holds the rules of access tokens and device authorizations.
type sessionService struct {
	sessions identity.Sessions
	devices  identity.Devices
}

// login issues an access token. Errors: errs.Unprocessable, errs.Forbidden for
// an email other than the credential's, errs.TooMany.
func (s *sessionService) login(ctx context.Context, in *loginIn) (LoginResponse, error) {
	email, err := identity.ParseEmail(in.Body.Email)
	if err != nil {
		return LoginResponse{}, errs.Field(errs.Body("email"), in.Body.Email, "not a valid email address")
	}
	p := tenant.From(ctx)
	if email != p.Email { //guard:identity/login-email false
		return LoginResponse{}, errs.New(errs.Forbidden, "The credential is not that of this email")
	}
	var made identity.Session
	var token string
	if p.SessionID != "" { // a new one would be a refresh
		_, token, _ = strings.Cut(in.Authorization, " ")
		token = strings.TrimSpace(token)
		made, err = s.sessions.Get(ctx, token)
	} else {
		made, token, err = s.sessions.Create(ctx)
	}
	return LoginResponse{AccessToken: token, TokenType: "Bearer", ExpiresAt: made.ExpiresAt}, err
}

// logout revokes the caller's access tokens.
func (s *sessionService) logout(ctx context.Context, _ *httpapi.None) (LogoutResponse, error) {
	return LogoutResponse{Status: "logged_out"}, s.sessions.Revoke(ctx)
}

// start starts a device authorization. Errors: errs.TooMany.
func (s *sessionService) start(ctx context.Context, _ *deviceStartIn) (DeviceStartResponse, error) {
	device, user, err := s.devices.Start(ctx, tenant.RequestFrom(ctx).IP)
	return DeviceStartResponse{
		DeviceCode: device, UserCode: user, Interval: pollInterval, ExpiresIn: int(identity.GrantLifetime.Seconds()),
	}, err
}

// approve approves a device authorization. Errors: errs.NotFound, errs.TooMany,
// errs.Gone, errs.Conflict.
func (s *sessionService) approve(ctx context.Context, in *deviceApproveIn) (DeviceApproveResponse, error) {
	p := tenant.From(ctx)
	return DeviceApproveResponse{Status: "approved", UserEmail: p.Email, OrgID: p.OrgID, OrgName: p.OrgName},
		s.devices.Approve(ctx, in.Body.UserCode)
}

// token redeems a device authorization. Errors: errs.Gone.
func (s *sessionService) token(ctx context.Context, in *deviceTokenIn) (httpapi.Pending[DeviceTokenResponse, DeviceTokenPending], error) {
	r, err := s.devices.Redeem(ctx, in.Body.DeviceCode)
	switch {
	case r.Raced:
		return httpapi.AskAgain[DeviceTokenResponse](DeviceTokenPending{Status: "slow_down", Interval: slowInterval}), err
	case r.Token == "":
		return httpapi.AskAgain[DeviceTokenResponse](DeviceTokenPending{Status: "authorization_pending", Interval: pollInterval}), err
	}
	return httpapi.Done[DeviceTokenPending](DeviceTokenResponse{
		AccessToken: r.Token, ExpiresAt: r.Session.ExpiresAt, UserEmail: r.Session.Email, OrgID: r.Session.OrgID, OrgName: r.OrgName,
	}), err
}
