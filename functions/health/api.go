package health

import (
	"millrace/shared/account/tenant"
	"millrace/shared/web/fn"
	"millrace/shared/web/httpapi"
)

// status is the state of a component, or of the whole service.
type status string

// The statuses, best first.
const (
	healthy   status = "healthy"
	degraded  status = "degraded"
	unhealthy status = "unhealthy"
)

// ComponentHealth is the state of one component.
type ComponentHealth struct {
	Name    string `json:"name" enum:"key_value_table,object_store,message_queue"`
	Status  status `json:"status" enum:"healthy,degraded,unhealthy"`
	Message string `json:"message" doc:"Details"`
}

// HealthCheckResponse is the response of GET /health.
type HealthCheckResponse struct {
	Status     status            `json:"status" enum:"healthy,degraded,unhealthy" doc:"The worst status of the components"`
	Version    string            `json:"version" doc:"Version of the service"`
	Components []ComponentHealth `json:"components" doc:"Always the three, in this order: key_value_table, object_store, message_queue"`
	Timestamp  string            `json:"timestamp" doc:"RFC 3339, UTC"`
}

type reportIn struct {
	Authorization string `header:"Authorization" hidden:"true"`
}

func routes(api *httpapi.API, d fn.Deps) {
	g := httpapi.Group{API: api, Function: name, Reads: tenant.Public}
	httpapi.Get(g, "/health", newService(d).health, "Health of the service", httpapi.ID("health"),
		httpapi.Doc("Checks the table, the object store and the message queues, each for at most two seconds. "+
			"The result is used for further requests for 5 s, one that is unhealthy for 1 s; timestamp tells its age."+
			" healthy: operational; degraded: not configured; unhealthy: not reachable, or failing. "+
			"A store that rejects writes because its disk is full is unhealthy and reports that. "+
			"The response is always 200 and needs no credential. With the operator's credential "+
			"(on the embedded server Authorization: Bearer and the local_secret of credentials.json) "+
			"the message of message_queue also tells how many tasks wait, for how long the oldest has waited, and how many messages were given up."))
}
