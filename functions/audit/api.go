package audit

import (
	"encoding/json"

	"millrace/shared/account/tenant"
	"millrace/shared/web/fn"
	"millrace/shared/web/httpapi"
)

// AuditLogEntry is one entry of the audit log.
type AuditLogEntry struct {
	OrgID        string          `json:"org_id"`
	EventTime    string          `json:"event_time" doc:"RFC 3339 in UTC with milliseconds, a hash sign and a unique suffix"`
	ResourceType string          `json:"resource_type" doc:"Singular noun: flow, deployment, run, secret, member …"`
	ResourceID   string          `json:"resource_id"`
	Action       string          `json:"action" doc:"Verb: create, update, delete …"`
	ActorEmail   *string         `json:"actor_email" doc:"For an API key, that of its creator; null: the service itself"`
	KeyID        *string         `json:"key_id" doc:"The API key that was used, if any"`
	IPAddress    *string         `json:"ip_address"`
	RequestID    *string         `json:"request_id" doc:"X-Request-Id of the response"`
	BeforeJSON   *map[string]any `json:"before_json" doc:"The state before, without secrets"`
	AfterJSON    *map[string]any `json:"after_json" doc:"The state after, without secrets"`
	Metadata     *map[string]any `json:"metadata"`
}

// AuditLogListResponse is a page of the audit log.
type AuditLogListResponse struct {
	Items     []AuditLogEntry `json:"items"`
	NextToken string          `json:"next_token,omitempty" doc:"Where the log goes on; absent at its end"`
}

// VerificationResponse tells whether the stored entries of complete days are
// those that were digested.
type VerificationResponse struct {
	Status     string             `json:"status" enum:"intact,broken" doc:"intact: all digested days that were looked at are as they were"`
	FirstDay   *string            `json:"first_day" doc:"The first day that was looked at"`
	LastDay    *string            `json:"last_day" doc:"The last day that was found intact"`
	LastDigest *string            `json:"last_digest" doc:"SHA-256 of the digest of last_day, which covers all days before it. Kept elsewhere, it proves later that none of them was digested anew"`
	Signature  *DigestSignature   `json:"signature" doc:"Of last_digest; null: no day was found intact"`
	Days       int                `json:"days" doc:"Days found intact"`
	Entries    int                `json:"entries" doc:"Entries of these days"`
	LockedDays int                `json:"locked_days" doc:"Those of these days whose digest was compared with a copy that nobody can change or delete, if this deployment keeps such copies"`
	Fault      *VerificationFault `json:"fault" doc:"The first day that does not fit; null: none"`
	NextDate   *string            `json:"next_date" doc:"The start_date that goes on, if there are more days than one request verifies"`
}

// DigestSignature is the signature of a day's digest. Whoever keeps the public
// key can verify it without the service.
type DigestSignature struct {
	KeyID     string `json:"key_id" doc:"SHA-256 of the public key in DER"`
	Algorithm string `json:"algorithm" doc:"ECDSA_SHA_256: on the curve P-256, in ASN.1"`
	Message   string `json:"message" doc:"What is signed: a text that names workspace, last_day and last_digest"`
	Value     string `json:"value" doc:"In base64"`
	PublicKey string `json:"public_key" doc:"In PEM; keep it, to verify with it later"`
}

// VerificationFault is a day that does not fit its digest.
type VerificationFault struct {
	Day    string `json:"day"`
	Reason string `json:"reason"`
}

type (
	listIn struct {
		ResourceType string `query:"resource_type" maxLength:"256"`
		Action       string `query:"action" maxLength:"256"`
		ActorEmail   string `query:"actor_email" maxLength:"256"`
		StartDate    string `query:"start_date" maxLength:"64" doc:"Only entries of then or later; an ISO 8601 date or timestamp, in UTC unless it names an offset"`
		EndDate      string `query:"end_date" maxLength:"64" doc:"Only entries of then or earlier; a date includes its whole day"`
		Limit        int    `query:"limit" minimum:"1" maximum:"1000" default:"50"`
		NextToken    string `query:"next_token" maxLength:"512" doc:"Goes on after the previous page"`
	}
	resourceIn struct {
		ResourceType string `path:"resource_type" maxLength:"256"`
		ResourceID   string `path:"resource_id" maxLength:"1024"`
		Limit        int    `query:"limit" minimum:"1" maximum:"1000" default:"50"`
		NextToken    string `query:"next_token" maxLength:"512" doc:"Goes on after the previous page"`
	}
	verifyIn struct {
		StartDate string `query:"start_date" pattern:"^[0-9]{4}-[0-9]{2}-[0-9]{2}$" doc:"First day to verify, in UTC; absent: the first one that was digested"`
		EndDate   string `query:"end_date" pattern:"^[0-9]{4}-[0-9]{2}-[0-9]{2}$" doc:"Last day to verify; absent: the last one that is over"`
	}
)

func routes(api *httpapi.API, d fn.Deps) {
	s := &service{table: d.Table, blob: d.Blob, signer: d.Signer, locked: d.Locked, clock: d.Clock, log: d.Log, cursors: api.Cursors()}
	access := tenant.Needs(tenant.AdminAudit)
	g := httpapi.Group{API: api, Function: name, Reads: access, Writes: access}
	httpapi.Get(g, "/audit-logs", s.list, "List the audit log", httpapi.Errors(400),
		httpapi.Doc("The newest first; the order within a millisecond is random. All filters are exact and combine. A page may "+
			"have fewer entries than the limit; the log ends where there is no next_token. New entries appear after a short delay."))
	httpapi.Get(g, "/audit-logs/resource/{resource_type}/{resource_id}", s.resource, "List the audit log of one resource", httpapi.Errors(400),
		httpapi.Doc("The newest first. It is empty for a resource that never existed."))
	httpapi.Get(g, "/audit-logs/verification", s.verify, "Verify the audit log",
		httpapi.Doc("An operation of Millrace's own. After each UTC day a digest of its entries is signed and stored; it names the digest of the day "+
			"before. This computes the digests anew and returns the first day that does not fit: entries or digests were changed, added or "+
			"removed since. A day is digested within two hours of its end. It is exported then, too, and its entries leave the log when the workspace's "+
			"retention is over; the export is verified with what is left."))
}

// object returns a stored JSON object, nil for none.
func object(stored string) *map[string]any {
	if stored == "" {
		return nil
	}
	var out map[string]any
	if err := json.Unmarshal([]byte(stored), &out); err != nil {
		return &map[string]any{"unreadable": true}
	}
	return &out
}
