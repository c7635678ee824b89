package quota

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Name names a limit, in settings and in error messages.
type Name string

// The limits.
const (
	Reads          Name = "reads-per-minute"
	Writes         Name = "writes-per-minute"
	UserRequests   Name = "user-requests-per-minute"
	Logins         Name = "logins-per-minute"
	DeviceGrants   Name = "device-grants-per-minute"
	Runs           Name = "runs-per-minute"
	UnfinishedRuns Name = "unfinished-runs"
	QueuedTasks    Name = "queued-tasks"
	QueuedItems    Name = "queued-map-items"
	ArtifactBytes  Name = "artifact-bytes"
	OpenUploads    Name = "open-uploads"
	Flows          Name = "flows"
	FlowVersions   Name = "flow-versions"
	Drafts         Name = "drafts"
	Deployments    Name = "deployments"
	APIKeys        Name = "api-keys"
	Secrets        Name = "secrets"
	Schedules      Name = "schedules"
	Sensors        Name = "sensors"
	Webhooks       Name = "webhook-requests-per-minute"
	Environments   Name = "environments"
	Channels       Name = "channels"
	AlertRules     Name = "alert-rules"
	RunningTasks   Name = "running-tasks"
	RunningOfAll   Name = "running-tasks-of-all"
	Workspaces     Name = "workspaces"
	Members        Name = "members"
	MonthlyRuns    Name = "runs-per-month"
	MonthlyCompute Name = "gb-seconds-per-month"
	RunDays        Name = "run-retention-days"
	AuditDays      Name = "audit-retention-days"
)

// Scope tells what a limit is counted for.
type Scope string

// The scopes.
const (
	Workspace Scope = "workspace"
	User      Scope = "user" // in all workspaces; for an API key, its creator
	Flow      Scope = "flow"
	Address   Scope = "address" // of a client; for IPv6, its /64 network
	URL       Scope = "URL"     // of a webhook
	All       Scope = "deployment"
)

// Limit is one row of the table of limits.
type Limit struct {
	Name    Name
	Scope   Scope
	Default int64
	// Per is the window of a rate; 0 for a quota, which bounds the number of
	// existing things.
	Per time.Duration
	// Monthly means that the limit is of a calendar month of UTC.
	Monthly bool
	// Days means that it is a retention: how many days records are kept.
	Days bool
	// Own means that a workspace may have a value of its own.
	Own bool
	// What names the limited things, in the plural.
	What string
	// Advice tells users what to do when a quota is used up.
	Advice string
	// Again is the retry delay after a quota was used up, and the minimum time
	// between two counts.
	Again time.Duration
	// Exact makes a rate exact across processes, at a write for each request; it is
	// for small limits.
	Exact bool
	// Whole admits any request while there is any room at all, so that one larger
	// than the limit can proceed.
	Whole bool
}

const (
	soon  = time.Second     // for things that users delete
	later = 5 * time.Second // for things that end by themselves
	waits = "Wait until some have ended or cancel some"
)

// Limits is the table of limits: everything that a workspace or a user may do
// or have. Operators can change the values. The defaults prevent harm to others
// without restricting ordinary use.
var Limits = []Limit{
	{Name: Reads, Scope: Workspace, Default: 1_200_000, Per: time.Minute, What: "requests that read"},
	{Name: Writes, Scope: Workspace, Default: 600_000, Per: time.Minute, What: "requests that change something"},
	{Name: UserRequests, Scope: User, Default: 1_800_000, Per: time.Minute, What: "requests"},
	{Name: Logins, Scope: User, Default: 600, Per: time.Minute, What: "logins"},
	{Name: DeviceGrants, Scope: Address, Default: 600, Per: time.Minute, What: "device authorizations started"},
	{Name: Runs, Scope: Workspace, Default: 360_000, Per: time.Minute, What: "runs started"},
	{Name: UnfinishedRuns, Scope: Workspace, Default: 100_000, What: "unfinished runs", Advice: waits, Again: later},
	{Name: QueuedTasks, Scope: Workspace, Default: 1_000_000, What: "tasks of unfinished runs", Advice: waits, Again: later, Whole: true},
	{Name: QueuedItems, Scope: Workspace, Default: 1_000_000, What: "unfinished instances of mapped tasks", Advice: waits, Again: later, Whole: true},
	{Name: RunningTasks, Scope: Workspace, Default: 1000, Own: true, What: "Python tasks that run at once on AWS; further ones wait", Advice: waits, Again: later},
	{Name: RunningOfAll, Scope: All, Default: -1, What: "Python tasks of all workspaces that run at once on AWS, shared fairly; further ones wait", Advice: waits, Again: later},
	{Name: ArtifactBytes, Scope: Workspace, Default: 500 << 30, What: "bytes of artifacts", Advice: "Abort uploads that are not needed", Again: soon},
	{Name: OpenUploads, Scope: Workspace, Default: 1000, What: "open uploads", Advice: "Complete or abort some, or wait until they expire", Again: soon},
	{Name: Flows, Scope: Workspace, Default: 10_000, What: "flows", Advice: "Delete some", Again: soon},
	{Name: FlowVersions, Scope: Flow, Default: 10_000, What: "versions", Advice: "Delete the flow, or register under another name"},
	{Name: Drafts, Scope: Workspace, Default: 10_000, What: "drafts", Advice: "Delete some flows with their drafts", Again: soon},
	{Name: Deployments, Scope: Workspace, Default: 2000, What: "deployments", Advice: "Delete some", Again: soon},
	{Name: APIKeys, Scope: Workspace, Default: 1000, What: "API keys", Advice: "Delete some", Again: soon},
	{Name: Secrets, Scope: Workspace, Default: 5000, What: "secrets", Advice: "Delete some", Again: soon},
	{Name: Schedules, Scope: Workspace, Default: 10_000, What: "schedules", Advice: "Change one that is disabled", Again: soon},
	{Name: Sensors, Scope: Workspace, Default: 2000, What: "sensors", Advice: "Delete some", Again: soon},
	{Name: Webhooks, Scope: URL, Default: 60, Per: time.Minute, What: "requests of a webhook", Exact: true},
	{Name: Members, Scope: Workspace, Default: 1000, What: "members", Advice: "Have new people join another workspace", Again: soon},
	{Name: Environments, Scope: Workspace, Default: 100, What: "environments", Advice: "Delete some", Again: soon},
	{Name: Channels, Scope: Workspace, Default: 100, What: "notification channels", Advice: "Delete some", Again: soon},
	{Name: AlertRules, Scope: Workspace, Default: 500, What: "alert rules", Advice: "Delete some", Again: soon},
	{Name: MonthlyRuns, Scope: Workspace, Default: -1, Monthly: true, What: "runs"},
	{Name: MonthlyCompute, Scope: Workspace, Default: -1, Monthly: true, What: "GB-seconds of Python tasks"},
	{Name: RunDays, Scope: Workspace, Default: 365, Days: true, Own: true, What: "days that a run is kept after its end"},
	{Name: AuditDays, Scope: Workspace, Default: 2555, Days: true, Own: true, What: "days that an audit entry is kept in the log; its day is exported before"},
	{Name: Workspaces, Scope: User, Default: 100, What: "workspaces made by them", Advice: "Use one that exists", Again: soon},
}

var byName = func() map[Name]*Limit {
	out := make(map[Name]*Limit, len(Limits))
	for i := range Limits {
		out[Limits[i].Name] = &Limits[i]
	}
	return out
}()

// Unlimited is the setting that removes a limit.
const Unlimited = "unlimited"

// Values are an operator's settings by limit, those of one workspace by
// limit@workspace. A negative value means [Unlimited].
type Values map[Name]int64

// Of returns the value of a limit. ok is false if it is unlimited.
func (v Values) Of(n Name) (int64, bool) {
	value, set := v[n]
	if !set {
		value = byName[n].Default
	}
	return value, value >= 0
}

// ParseValues parses settings of the form name=value, where value is a number
// or "unlimited", and plan=name for the values of one of [Plans]. Later settings
// win. Some limits may be of one workspace, see [Limit.Own]: name@workspace=value.
func ParseValues(settings []string) (Values, error) {
	out := Values{}
	for _, s := range settings {
		name, text, ok := strings.Cut(s, "=")
		name, text = strings.TrimSpace(name), strings.TrimSpace(text)
		if !ok {
			return nil, fmt.Errorf("limit %q is not name=value", s)
		}
		if name == planSetting {
			values, err := planValues(text)
			if err != nil {
				return nil, err
			}
			maps.Copy(out, values)
			continue
		}
		setting := Name(name)
		name, err := limitOf(name)
		if err != nil {
			return nil, err
		}
		if byName[Name(name)] == nil {
			return nil, fmt.Errorf("unknown limit %q; the limits are %s", name, strings.Join(names(func(Limit) bool { return true }), ", "))
		}
		if text == Unlimited {
			out[setting] = -1
			continue
		}
		value, err := strconv.ParseInt(text, 10, 64)
		if err != nil || value < 0 {
			return nil, fmt.Errorf("limit %s: %q is neither a non-negative number nor %q", name, text, Unlimited)
		}
		if byName[Name(name)].Days && (value < 1 || value > maxDays) {
			return nil, fmt.Errorf("limit %s: %q is neither a number of days from 1 to %d nor %q", name, text, maxDays, Unlimited)
		}
		out[setting] = value
	}
	return out, nil
}

// names returns the names of some limits.
func names(which func(Limit) bool) []string {
	var out []string
	for _, l := range Limits {
		if which(l) {
			out = append(out, string(l.Name))
		}
	}
	slices.Sort(out)
	return out
}

// Markdown returns the limits and the plans as the tables in the README.
func Markdown() string {
	var b strings.Builder
	b.WriteString("| limit | of each | default | |\n| --- | --- | --- | --- |\n")
	for _, l := range Limits {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", l.Name, l.Scope, grouped(l.Default), l.What)
	}
	b.WriteString(plansMarkdown())
	return b.String()
}

// grouped formats a number with commas between thousands.
func grouped(n int64) string {
	if n < 0 {
		return Unlimited
	}
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
