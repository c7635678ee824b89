package main

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"millrace/shared/account/quota"
	"millrace/shared/platform/mail"
	"millrace/shared/run/tier"
	"millrace/shared/web/cors"
)

// Config describes one deployment: a tenant's service in a region. It is given
// as CDK context, -c tenant=acme -c region=eu-west-1; config.go lists every
// key.
type Config struct {
	Tenant  string // tenant: part of every name; required
	Region  string // region: required
	Stage   string // stage: dev, staging or prod (default)
	Version string // version: of the code, shown by the health operation

	Domain      string // domain: the API's own domain name; default: API Gateway's
	Certificate string // certificate: ARN of the domain's certificate, in the region

	Origins cors.Origins // consoleOrigin: origins of web pages that may use the API and upload, comma-separated

	Issuer      string   // signinIssuer: of sign-in tokens; default: a Cognito user pool of the deployment
	Audience    string   // signinAudience: the client id in them
	JWKS        string   // signinJwks: URL of the issuer's keys; default: the one it publishes
	Signup      string   // signup: open lets anyone create a user; default: only administrators do. Without signinIssuer only
	SuperAdmins []string // superAdmins: emails of the platform's administrators, comma-separated
	Limits      []string // limits: name=value of limits that differ from the defaults of package quota, comma-separated
	AllowRanges []string // allowRanges: CIDR ranges that users' calls may reach besides public ones, comma-separated

	LogLevel    string   // logLevel: of the functions: debug, info (default), warn or error
	Tiers       tier.Set // tiers: runtime tiers that tasks can have, comma-separated, nano among them; default: all
	Concurrency int      // concurrency: concurrent executions that the account's quota allows; 0, the default: unknown
	Share       int      // share: percentage of them that are this deployment's; default: 100

	OTLPEndpoint string // otlpEndpoint: base URL of the OpenTelemetry collector that spans are posted to; default: none are exported
	OTLPHeaders  string // otlpHeadersSecret: ARN of the secret with the headers of these requests, key=value, comma-separated; default: none

	AlarmEmail string // alarmEmail: recipient of alarms
	MailFrom   string // mailFrom: sender of notifications by mail, "alerts@acme.example" or "Acme <alerts@acme.example>": a verified identity of SES in the region, or of its domain; default: no mail is sent

	Rollout        string // rollout: of new code: canary (default except in dev) or at-once
	Budget         int    // budget: dollars a month of the account; alarms at 80% and 100%, and if the forecast exceeds it
	AnomalyMonitor string // anomalyMonitor: ARN of the account's cost anomaly monitor; alarms of its findings
	MaxWriteUnits  int    // maxWriteUnits: write units a second of the table and of each index; default: the account's quota
	MaxReadUnits   int    // maxReadUnits: the same for read units

	SyntheticRun bool // syntheticRun: true starts a run every minute, with a key that the operator stores; default: none

	AuditLock     int    // auditLock: days for which copies of audit digests are locked; default: none are kept
	AuditLockMode string // auditLockMode: governance (default) or compliance, which nobody can undo

	BackupRegion  string // backupRegion: region that table and objects are copied to, with replicas of the keys; default: none. Only of a new deployment
	RecoveredFrom string // recoveredFrom: region whose deployment this one replaces; needs its recovery stack here, and table
	Restored      string // table: name of a restored table that functions use instead of the data stack's
}

// stages are the kinds of deployment.
var stages = []string{"dev", "staging", "prod"}

// logLevels are the levels of the functions' log lines.
var logLevels = []string{"debug", "info", "warn", "error"}

// contextKeys are the context keys of a deployment.
var contextKeys = []string{
	"tenant",
	"region",
	"stage",
	"version",
	"domain",
	"certificate",
	"consoleOrigin",
	"signinIssuer",
	"signinAudience",
	"signinJwks",
	"superAdmins",
	"limits",
	"allowRanges",
	"logLevel",
	"alarmEmail",
	"mailFrom",
	"rollout",
	"table",
	"signup",
	"tiers",
	"concurrency",
	"share",
	"budget",
	"anomalyMonitor",
	"maxWriteUnits",
	"maxReadUnits",
	"otlpEndpoint",
	"otlpHeadersSecret",
	"auditLock",
	"auditLockMode",
	"backupRegion",
	"recoveredFrom",
	"syntheticRun",
}

// checkKeys returns an error that names the unknown keys: a mistyped stage
// must not deploy to prod. The CDK's own keys, which contain punctuation, are
// ignored.
func checkKeys(keys []string) error {
	var faults []error
	for _, key := range keys {
		if plainKey.MatchString(key) && !slices.Contains(contextKeys, key) {
			faults = append(faults, fmt.Errorf("%s is not one of %s", key, strings.Join(contextKeys, ", ")))
		}
	}
	return errors.Join(faults...)
}

var (
	tenantForm      = regexp.MustCompile(`^[a-z][a-z0-9]*(-[a-z0-9]+)*$`)
	domainForm      = regexp.MustCompile(`^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]{2,63}$`)
	certificateForm = regexp.MustCompile(`^arn:aws[a-z-]*:acm:([a-z0-9-]+):\d{12}:certificate/[0-9a-f-]+$`)
	secretForm      = regexp.MustCompile(`^arn:aws[a-z-]*:secretsmanager:[a-z0-9-]+:\d{12}:secret:[A-Za-z0-9/_+=.@-]+$`)
	emailForm       = regexp.MustCompile(`^[^@\s,]+@[^@\s,]+\.[^@\s,]+$`)
	tableForm       = regexp.MustCompile(`^[A-Za-z0-9_.-]{3,255}$`)
	plainKey        = regexp.MustCompile(`^[A-Za-z0-9_]+$`)
	versionForm     = regexp.MustCompile(`^[A-Za-z0-9._+-]{1,64}$`)
)

// maxTenant limits the longest name that contains a tenant, which is a
// bucket's.
const maxTenant = 16

// maxLockDays is S3's longest default retention of Object Lock: 100 years.
const maxLockDays = 36_500

// readConfig reads and checks the context. get returns "" for a missing key;
// regions are the known regions. The error names every invalid key.
func readConfig(get func(key string) string, regions []string) (Config, error) {
	c := Config{
		Tenant: get("tenant"), Region: get("region"), Stage: cmp.Or(get("stage"), "prod"), Version: get("version"),
		Domain: get("domain"), Certificate: get("certificate"),
		Issuer: get("signinIssuer"), Audience: get("signinAudience"), JWKS: get("signinJwks"),
		SuperAdmins: list(get("superAdmins")), Limits: list(get("limits")), AllowRanges: list(get("allowRanges")), AlarmEmail: get("alarmEmail"),
		MailFrom: get("mailFrom"),
		Rollout:  get("rollout"), LogLevel: get("logLevel"), OTLPEndpoint: get("otlpEndpoint"), OTLPHeaders: get("otlpHeadersSecret"),
		Budget: whole(get("budget")), Share: whole(get("share")), AnomalyMonitor: get("anomalyMonitor"), MaxWriteUnits: whole(get("maxWriteUnits")), MaxReadUnits: whole(get("maxReadUnits")),
		AuditLockMode: get("auditLockMode"), Restored: get("table"), Signup: get("signup"),
		SyntheticRun: get("syntheticRun") == "true", BackupRegion: get("backupRegion"), RecoveredFrom: get("recoveredFrom"),
	}
	var faults []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	if text := get("auditLock"); text != "" {
		days, err := strconv.Atoi(text)
		check(err == nil && days >= 1 && days <= maxLockDays, "auditLock %q: 1 to %d days", text, maxLockDays)
		c.AuditLock, c.AuditLockMode = days, cmp.Or(c.AuditLockMode, "governance")
		check(lockModes[c.AuditLockMode] != "", "auditLockMode %q is neither governance nor compliance", c.AuditLockMode)
	}
	check(slices.Contains([]string{"", "true", "false"}, get("syntheticRun")), "syntheticRun %q is neither true nor false", get("syntheticRun"))
	check(c.AuditLockMode == "" || c.AuditLock != 0, "auditLockMode needs auditLock")
	check(c.Tenant != "", "tenant is missing: -c tenant=acme")
	check(c.Tenant == "" || len(c.Tenant) <= maxTenant && tenantForm.MatchString(c.Tenant),
		"tenant %q: 1 to %d small letters and digits, with single hyphens between, beginning with a letter", c.Tenant, maxTenant)
	check(c.Region != "", "region is missing: -c region=eu-west-1")
	check(c.Region == "" || slices.Contains(regions, c.Region), "region %q is no region of AWS", c.Region)
	check(!slices.Contains(withoutURLs, c.Region), "region %s has no URLs of functions, by which sandboxes report", c.Region)
	for key, other := range map[string]string{"backupRegion": c.BackupRegion, "recoveredFrom": c.RecoveredFrom} {
		check(other == "" || slices.Contains(regions, other), "%s %q is no region of AWS", key, other)
		check(other == "" || other != c.Region, "%s is the deployment's own region", key)
	}
	check(!slices.Contains(withoutURLs, c.BackupRegion), "backupRegion %s has no URLs of functions: nothing could be recovered there", c.BackupRegion)
	check(partition(c.BackupRegion) == partition(c.Region) || c.BackupRegion == "", "backupRegion %s is in another partition of AWS", c.BackupRegion)
	check(c.BackupRegion == "" || c.RecoveredFrom == "", "backupRegion and recoveredFrom do not go together: replicas of keys have no replicas")
	check(c.RecoveredFrom == "" || c.Restored != "", "recoveredFrom needs table, the name of the table restored from its copy")
	check(slices.Contains(stages, c.Stage), "stage %q is not one of %s", c.Stage, strings.Join(stages, ", "))
	check(c.Version == "" || versionForm.MatchString(c.Version), "version %q: up to 64 letters, digits, dots, hyphens, pluses and underscores", c.Version)

	check((c.Domain == "") == (c.Certificate == ""), "domain and certificate go together")
	check(c.Domain == "" || len(c.Domain) <= 253 && domainForm.MatchString(c.Domain), "domain %q is no domain name", c.Domain)
	certificate := certificateForm.FindStringSubmatch(c.Certificate)
	check(c.Certificate == "" || certificate != nil, "certificate %q is no ARN of a certificate", c.Certificate)
	check(certificate == nil || certificate[1] == c.Region, "certificate is not in the region %s, where a regional API needs it", c.Region)

	check((c.Issuer == "") == (c.Audience == ""), "signinIssuer and signinAudience go together")
	check(c.JWKS == "" || c.Issuer != "", "signinJwks needs a signinIssuer")
	check(c.Issuer == "" || secureURL(c.Issuer), "signinIssuer %q is no https URL", c.Issuer)
	check(c.JWKS == "" || secureURL(c.JWKS), "signinJwks %q is no https URL", c.JWKS)
	for _, email := range c.SuperAdmins {
		check(emailForm.MatchString(email), "superAdmins: %q is no email address", email)
	}
	check(c.AlarmEmail == "" || emailForm.MatchString(c.AlarmEmail), "alarmEmail %q is no email address", c.AlarmEmail)
	address, _ := c.mailFrom()
	check(c.MailFrom == "" || emailForm.MatchString(address), "mailFrom %q is no email address", c.MailFrom)
	check(c.Rollout == "" || slices.Contains(rollouts, c.Rollout), "rollout %q is not one of %s", c.Rollout, strings.Join(rollouts, ", "))
	check(c.Restored == "" || tableForm.MatchString(c.Restored), "table %q is no name of a table", c.Restored)
	check(c.LogLevel == "" || slices.Contains(logLevels, c.LogLevel), "logLevel %q is not one of %s", c.LogLevel, strings.Join(logLevels, ", "))
	check(c.Signup == "" || c.Signup == openSignup, "signup %q is not %s", c.Signup, openSignup)
	check(c.Signup == "" || c.Issuer == "", "signup is for deployments without a signinIssuer, which has the users otherwise")
	check(c.Share >= 0 && c.Share <= 100, "share %q is no percentage", get("share"))
	check(c.Budget >= 0, "budget %q is no number of dollars from 1", get("budget"))
	check(c.MaxWriteUnits >= 0, "maxWriteUnits %q is no number from 1", get("maxWriteUnits"))
	check(c.MaxReadUnits >= 0, "maxReadUnits %q is no number from 1", get("maxReadUnits"))
	check(c.AnomalyMonitor == "" || monitorForm.MatchString(c.AnomalyMonitor), "anomalyMonitor %q is no ARN of a cost anomaly monitor", c.AnomalyMonitor)
	check(c.OTLPEndpoint == "" || secureURL(c.OTLPEndpoint), "otlpEndpoint %q is no https URL", c.OTLPEndpoint)
	check(c.OTLPHeaders == "" || c.OTLPEndpoint != "", "otlpHeadersSecret needs an otlpEndpoint")
	check(c.OTLPHeaders == "" || secretForm.MatchString(c.OTLPHeaders), "otlpHeadersSecret %q is no ARN of a secret", c.OTLPHeaders)
	var err error
	c.Origins, err = cors.Parse(list(get("consoleOrigin")))
	check(err == nil, "consoleOrigin: %v", err)
	_, err = quota.ParseValues(c.Limits)
	check(err == nil, "limits: %v", err)
	c.Tiers, err = tier.ParseSet(get("tiers"))
	check(err == nil, "tiers: %v", err)
	if text := get("concurrency"); text != "" {
		c.Concurrency, err = strconv.Atoi(text)
		check(err == nil && c.Concurrency >= 0, "concurrency %q is no number of executions", text)
	}
	for _, text := range c.AllowRanges {
		_, err := netip.ParsePrefix(text)
		check(err == nil, "allowRanges: %q is not a CIDR range such as 10.0.0.0/8", text)
	}
	return c, errors.Join(faults...)
}

// mailFrom returns the address of the sender of mail and its domain, both empty
// if there is none.
func (c Config) mailFrom() (address, domain string) {
	parsed, err := mail.Address(c.MailFrom)
	if err != nil {
		return "", ""
	}
	_, domain, _ = strings.Cut(parsed.Address, "@")
	return parsed.Address, domain
}

// protected reports whether data and stacks are protected: in all stages but dev,
// whose data is deleted with its stack.
func (c Config) protected() bool { return c.Stage != "dev" }

// name returns the name of a resource, e.g. "millrace-acme-prod-runs".
func (c Config) name(part string) string { return c.prefix() + part }

// prefix is the prefix of all names within an account and region.
func (c Config) prefix() string { return "millrace-" + c.Tenant + "-" + c.Stage + "-" }

// logGroup returns the name of a log group, e.g. "/millrace/acme/prod/runs".
func (c Config) logGroup(part string) string {
	return "/millrace/" + c.Tenant + "/" + c.Stage + "/" + part
}

// table returns the name of the table that functions use.
func (c Config) table() string { return cmp.Or(c.Restored, c.name("table")) }

// namespace returns the CloudWatch namespace of the functions' own metrics.
func (c Config) namespace() string { return "Millrace/" + c.Tenant + "/" + c.Stage }

// queue returns the name of a queue of the catalog.
func (c Config) queue(name string) string { return c.prefix() + name }

// partition returns the part of AWS that a region is in: keys and backups are not
// copied from one to another.
func partition(region string) string {
	for _, prefix := range []string{"cn-", "us-gov-", "us-iso", "eu-isoe-", "eusc-"} {
		if strings.HasPrefix(region, prefix) {
			return prefix
		}
	}
	return "aws"
}

func secureURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Scheme == "https" && u.Host != "" && u.User == nil
}

func list(text string) []string {
	var out []string
	for v := range strings.SplitSeq(text, ",") {
		if v = strings.TrimSpace(v); v != "" {
			out = append(out, v)
		}
	}
	return out
}
