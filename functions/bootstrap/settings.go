package main

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"millrace/shared/account/quota"
	"millrace/shared/platform/keyring"
	"millrace/shared/platform/mail"
	"millrace/shared/platform/telemetry/otlp"
	"millrace/shared/run/sandbox/ticket"
	"millrace/shared/run/tier"
	"millrace/shared/web/cors"
	"millrace/shared/web/fn"
)

// The environment of a function. The function's spec determines which variables
// are required; the others are optional, and variables that the function does
// not need are ignored. Region, credentials and endpoints (AWS_REGION,
// AWS_ENDPOINT_URL, AWS_ENDPOINT_URL_DYNAMODB …) are the SDK's own variables. A
// secret may be given as its ARN in Secrets Manager.
const (
	envVersion  = "MILLRACE_VERSION"   // shown by health; default: the build's
	envLogLevel = "MILLRACE_LOG_LEVEL" // debug, info (default), warn or error
	envMetrics  = "MILLRACE_METRICS"   // CloudWatch namespace of the metrics; default Millrace

	// The variables of the exporter of spans are OpenTelemetry's own, see package
	// otlp. The headers may be a secret.

	envTable       = "MILLRACE_TABLE"           // name or ARN of the DynamoDB table
	envBucket      = "MILLRACE_BUCKET"          // name of the S3 bucket
	envBus         = "MILLRACE_BUS"             // name or ARN of the EventBridge bus
	envSigningKey  = "MILLRACE_SIGNING_KEY_ARN" // ARN of the asymmetric KMS key that signs digests of the audit log
	envLocked      = "MILLRACE_LOCKED_BUCKET"   // name of the S3 bucket of locked copies of audit digests; empty: none are kept
	envVaultKey    = "MILLRACE_VAULT_KEY_ARN"   // ARN of the KMS key that wraps the data keys of secret values
	envMailFrom    = "MILLRACE_MAIL_FROM"       // sender of mail, a verified identity of SES; empty: no mail is sent
	envQueuePrefix = "MILLRACE_QUEUE_PREFIX"    // prefix of the queues' names; may be empty

	envIssuer      = "MILLRACE_SIGNIN_ISSUER"   // of sign-in tokens; empty: only API keys are accepted
	envAudience    = "MILLRACE_SIGNIN_AUDIENCE" // the client id in them; required with the issuer
	envJWKS        = "MILLRACE_SIGNIN_JWKS_URL" // of the issuer's keys; default: the one in its discovery document
	envSuperAdmins = "MILLRACE_SUPER_ADMINS"    // emails of the platform's administrators, comma-separated
	envCursorKey   = "MILLRACE_CURSOR_KEY"      // secret, base64 of 32 bytes or more: signs list cursors
	envLimits      = "MILLRACE_LIMITS"          // name=value of limits that differ from the defaults of package quota, comma-separated
	envOrigins     = "MILLRACE_ALLOW_ORIGINS"   // origins of web pages that may use the API, comma-separated
	envURL         = "MILLRACE_URL"             // base URL of the API for callers, without a trailing slash
	envTiers       = "MILLRACE_TIERS"           // runtime tiers that the deployment has, comma-separated; default: all
	envAllowRanges = "MILLRACE_ALLOW_RANGES"    // CIDR ranges that calls on behalf of users may reach besides public addresses, comma-separated

	envSandboxPrefix = "MILLRACE_SANDBOX_PREFIX" // prefix of the names of the sandbox functions, before the tier
	envAttemptKey    = "MILLRACE_ATTEMPT_KEY"    // secret, base64 of 32 bytes or more: signs the tokens for it

	envAPIKey = "MILLRACE_API_KEY" // secret, an API key; if it is an ARN, it is read each time that it is used
)

// minKey is the minimum length of a secret, in bytes.
const minKey = ticket.MinKey

// settings are the parsed environment.
type settings struct {
	Version  string
	LogLevel slog.Level
	Metrics  string // namespace
	Region   string
	OTLP     otlp.Config // of the collector of spans

	Table, Bucket, Bus, QueuePrefix string
	VaultKey, SigningKey, MailFrom  string
	ObjectEndpoint                  string // of a server other than S3
	LockedBucket, LockedEndpoint    string // of the copies of audit digests; empty: there are none

	Issuer, Audience, JWKS string
	SuperAdmins            []string
	URL                    string // of the API
	Origins                cors.Origins
	CursorKeys             *keyring.Ring
	AllowRanges            []string
	Limits                 quota.Values
	Tiers                  tier.Set

	SandboxPrefix string
	AttemptKeys   *keyring.Ring

	apiKey string // or its ARN
	APIKey func(ctx context.Context) (string, error)
}

// readSettings reads and checks the variables that a function needs. The error
// names every missing or invalid variable, but no value of a secret.
func readSettings(getenv func(string) string, spec fn.Spec) (settings, error) {
	r := reader{getenv: getenv}
	needs := spec.Needs
	cfg := settings{
		Version: cmp.Or(getenv(envVersion), version), Region: getenv("AWS_REGION"), LogLevel: r.level(), Metrics: r.namespace(),
	}
	var err error
	if cfg.OTLP, err = otlp.ReadConfig(getenv); err != nil {
		r.fault("%w", err)
	}
	if needs.Table != fn.NoAccess {
		cfg.Table = r.required(envTable)
	}
	if usesBucket(spec) {
		cfg.Bucket = r.required(envBucket)
		cfg.ObjectEndpoint = cmp.Or(getenv("AWS_ENDPOINT_URL_S3"), getenv("AWS_ENDPOINT_URL"))
	}
	if needs.Locked != fn.NoAccess {
		cfg.LockedBucket = getenv(envLocked)
		cfg.LockedEndpoint = cmp.Or(getenv("AWS_ENDPOINT_URL_S3"), getenv("AWS_ENDPOINT_URL"))
	}
	if usesQueues(spec) {
		cfg.QueuePrefix = getenv(envQueuePrefix)
	}
	if needs.Vault {
		cfg.VaultKey = r.required(envVaultKey)
	}
	if needs.Signer != fn.NoAccess {
		cfg.SigningKey = r.required(envSigningKey)
	}
	if needs.Mail {
		cfg.MailFrom = r.mailAddress(envMailFrom)
	}
	if needs.Publish {
		cfg.Bus = r.required(envBus)
	}
	if needs.Sandbox {
		cfg.SandboxPrefix = r.required(envSandboxPrefix)
	}
	if needs.Sandbox || needs.AttemptKey {
		cfg.AttemptKeys = r.keys(envAttemptKey)
	}
	if needs.APIKey {
		cfg.apiKey = r.required(envAPIKey)
	}
	if spec.Authenticates() {
		cfg.CursorKeys = r.keys(envCursorKey)
		cfg.JWKS = getenv(envJWKS)
		cfg.SuperAdmins = r.list(envSuperAdmins)
	}
	if spec.Authenticates() || spec.Trigger.Unmatched {
		cfg.Issuer, cfg.Audience = getenv(envIssuer), getenv(envAudience)
		if (cfg.Issuer == "") != (cfg.Audience == "") {
			r.fault("%s and %s go together", envIssuer, envAudience)
		}
	}
	if spec.Trigger.HTTP {
		if cfg.Origins, err = cors.Parse(r.list(envOrigins)); err != nil {
			r.fault("%s: %w", envOrigins, err)
		}
	}
	if spec.Trigger.Unmatched || needs.Links {
		cfg.URL = r.address(envURL)
	}
	if needs.Table == fn.Writes {
		if cfg.Limits, err = quota.ParseValues(r.list(envLimits)); err != nil {
			r.fault("%s: %w", envLimits, err)
		}
	}
	if cfg.Tiers, err = tier.ParseSet(getenv(envTiers)); err != nil {
		r.fault("%s: %w", envTiers, err)
	}
	for _, text := range r.list(envAllowRanges) {
		if _, err := netip.ParsePrefix(text); err != nil {
			r.fault("%s: %q is not a CIDR range such as 10.0.0.0/8", envAllowRanges, text)
			continue
		}
		cfg.AllowRanges = append(cfg.AllowRanges, text)
	}
	return cfg, errors.Join(r.faults...)
}

// usesBucket reports whether a function uses the bucket, if only for traces.
func usesBucket(spec fn.Spec) bool {
	return spec.Needs.Blob != fn.NoAccess || len(spec.WriteFolders()) > 0
}

// usesQueues reports whether a function uses queues itself: it sends to them,
// reads their counts, or defers the messages it receives.
func usesQueues(spec fn.Spec) bool {
	return len(spec.Needs.Send) > 0 || len(spec.Needs.Measure) > 0 || spec.Messages != nil
}

// reader reads variables and collects errors.
type reader struct {
	getenv func(string) string
	faults []error
}

func (r *reader) fault(format string, args ...any) {
	r.faults = append(r.faults, fmt.Errorf(format, args...))
}

func (r *reader) required(name string) string {
	v := r.getenv(name)
	if v == "" {
		r.fault("%s is missing", name)
	}
	return v
}

// address reads an absolute URL.
func (r *reader) address(name string) string {
	v := r.required(name)
	if u, err := url.Parse(v); v != "" && (err != nil || u.Host == "" || !slices.Contains([]string{"http", "https"}, u.Scheme)) {
		r.fault("%s is no http or https URL", name)
	}
	return v
}

// mailAddress reads an optional address, with or without a name.
func (r *reader) mailAddress(name string) string {
	v := r.getenv(name)
	if _, err := mail.Address(v); v != "" && err != nil {
		r.fault("%s is no mail address", name)
	}
	return v
}

// keys reads a secret.
func (r *reader) keys(name string) *keyring.Ring {
	v := r.required(name)
	if v == "" {
		return nil
	}
	key, err := decodeKey(v)
	if err != nil {
		r.fault("%s %w", name, err)
		return nil
	}
	return keyring.Static(key)
}

// decodeKey decodes the text of a key. The error does not quote it.
func decodeKey(text string) ([]byte, error) {
	key, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(key) < minKey {
		return nil, fmt.Errorf("is not the base64 of %d bytes or more", minKey)
	}
	return key, nil
}

// list reads values separated by commas.
func (r *reader) list(name string) []string {
	var out []string
	for v := range strings.SplitSeq(r.getenv(name), ",") {
		if v = strings.TrimSpace(v); v != "" {
			out = append(out, v)
		}
	}
	return out
}

// namespace reads a name as CloudWatch takes it.
func (r *reader) namespace() string {
	name := cmp.Or(r.getenv(envMetrics), "Millrace")
	strange := func(c rune) bool {
		return !strings.ContainsRune("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-_/#:", c)
	}
	if len(name) > 255 || strings.HasPrefix(name, "AWS/") || strings.ContainsFunc(name, strange) {
		r.fault("%s is %q, no namespace of CloudWatch", envMetrics, name)
	}
	return name
}

func (r *reader) level() slog.Level {
	var level slog.Level
	if v := r.getenv(envLogLevel); v != "" && level.UnmarshalText([]byte(v)) != nil {
		r.fault("%s is %q, not debug, info, warn or error", envLogLevel, v)
	}
	return level
}
