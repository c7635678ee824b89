package tenant

import (
	"maps"
	"slices"
)

// Permission is one right. Its text is also the API-key scope.
type Permission string

// The permissions.
const (
	FlowsRead         Permission = "flows.read"
	FlowsWrite        Permission = "flows.write"
	FlowsDelete       Permission = "flows.delete"
	RunsRead          Permission = "runs.read"
	RunsTrigger       Permission = "runs.trigger"
	RunsCancel        Permission = "runs.cancel"
	SchedulesRead     Permission = "schedules.read"
	SchedulesWrite    Permission = "schedules.write"
	SecretsRead       Permission = "secrets.read"
	SecretsWrite      Permission = "secrets.write"
	NodesRead         Permission = "nodes.read"
	NodesWrite        Permission = "nodes.write"
	NodesDelete       Permission = "nodes.delete"
	EnvironmentsRead  Permission = "environments.read"
	EnvironmentsWrite Permission = "environments.write"
	NotificationsRead Permission = "notifications.read"
	// NotificationsWrite covers channels and alert rules.
	NotificationsWrite Permission = "notifications.write"
	SensorsRead        Permission = "sensors.read"
	SensorsWrite       Permission = "sensors.write"
	DepPackagesRead    Permission = "dep_packages.read"
	DepPackagesWrite   Permission = "dep_packages.write"
	ConnectorsRead     Permission = "connectors.read"
	ConnectorsWrite    Permission = "connectors.write"
	ConnectorsDelete   Permission = "connectors.delete"
	ConnectionsRead    Permission = "connections.read"
	ConnectionsWrite   Permission = "connections.write"
	ConnectionsVerify  Permission = "connections.verify"
	ConnectionsUse     Permission = "connections.use"
	ConnectionsDelete  Permission = "connections.delete"
	AdminMembers       Permission = "admin.members"
	AdminAPIKeys       Permission = "admin.api_keys"
	AdminAudit         Permission = "admin.audit"
	AdminOrg           Permission = "admin.org"
	BillingRead        Permission = "billing.read"
	BillingWrite       Permission = "billing.write"
)

// ScopeAdmin is a scope of API keys that is not a permission. Account
// operations require it; it implies no other scope.
const ScopeAdmin = "admin"

// holders maps each permission to the lowest role that has it. Higher roles
// have it, too.
var holders = map[Permission]Role{
	FlowsRead: Viewer, RunsRead: Viewer, SchedulesRead: Viewer, NodesRead: Viewer,
	EnvironmentsRead: Viewer, DepPackagesRead: Viewer, ConnectorsRead: Viewer, ConnectionsRead: Viewer,

	FlowsWrite: Developer, RunsTrigger: Developer, SchedulesWrite: Developer, SecretsRead: Developer,
	NodesWrite: Developer, NotificationsRead: Developer, SensorsRead: Developer, DepPackagesWrite: Developer,
	ConnectorsWrite: Developer, ConnectionsWrite: Developer, ConnectionsVerify: Developer, ConnectionsUse: Developer,

	FlowsDelete: Admin, RunsCancel: Admin, SecretsWrite: Admin, NodesDelete: Admin,
	AdminMembers: Admin, AdminAPIKeys: Admin, AdminAudit: Admin, EnvironmentsWrite: Admin,
	NotificationsWrite: Admin, SensorsWrite: Admin, ConnectorsDelete: Admin, ConnectionsDelete: Admin,

	AdminOrg: Owner, BillingRead: Owner, BillingWrite: Owner,
}

// Permissions returns all permissions, sorted.
func Permissions() []Permission { return slices.Sorted(maps.Keys(holders)) }

// KnownScope reports whether an API key may be created with the scope.
func KnownScope(scope string) bool {
	_, known := holders[Permission(scope)]
	return known || scope == ScopeAdmin
}
