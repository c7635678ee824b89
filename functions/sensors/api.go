package sensors

import (
	"encoding/json"

	"millrace/shared/account/tenant"
	"millrace/shared/web/fn"
	"millrace/shared/web/httpapi"
)

// SensorCreateRequest is the body of POST /sensors.
type SensorCreateRequest struct {
	Name           string                     `json:"name" is:"title" minLength:"1" maxLength:"256" example:"orders arrived"`
	SensorType     string                     `json:"sensor_type" enum:"webhook,polling,objstore" example:"objstore"`
	FlowName       string                     `json:"flow_name" is:"name" example:"daily-sales" doc:"Runs are of its latest registered version then; it need not be registered yet"`
	FlowParamsJSON map[string]json.RawMessage `json:"flow_params_json,omitempty" doc:"Default parameters of the runs"`
	ConfigJSON     *Config                    `json:"config_json,omitempty"`
}

// SensorListResponse lists sensors.
type SensorListResponse struct {
	Items     []Sensor `json:"items"`
	NextToken string   `json:"next_token,omitempty" doc:"Absent at the end"`
}

// DeletedSensor is the answer to a deletion.
type DeletedSensor struct {
	Deleted bool `json:"deleted"`
}

// Path names a sensor.
type Path struct {
	ID string `path:"sensor_id" is:"name"`
}

type (
	createIn struct{ Body SensorCreateRequest }
	listIn   struct {
		Limit     int    `query:"limit" minimum:"1" maximum:"1000" default:"100"`
		NextToken string `query:"next_token" maxLength:"4096"`
	}
)

func routes(api *httpapi.API, d fn.Deps) {
	s := newService(d)
	s.cursors = api.Cursors()
	g := httpapi.Group{API: api, Function: name, Reads: tenant.Needs(tenant.SensorsRead), Writes: tenant.Needs(tenant.SensorsWrite)}
	const one = "/sensors/{sensor_id}"
	httpapi.Post(g, "/sensors", s.create, "Create a sensor", httpapi.Status(201),
		httpapi.Example(`{"name": "orders arrived", "sensor_type": "objstore", "flow_name": "daily-sales", "config_json": {"bucket": "acme-landing", "prefix": "orders/", "suffix": ".csv"}}`),
		httpapi.Doc("A webhook is answered with its secret webhook_token: POST /webhooks/{webhook_token} starts a run. "+
			"A polling sensor needs a url, whose first poll comes with the next tick, an objstore sensor a bucket, whose events must be delivered to this deployment: creating a sensor does not configure that. "+
			"While there is a sensor, the flow that it names cannot be deleted."))
	httpapi.Get(g, "/sensors", s.list, "List sensors", httpapi.Errors(400), httpapi.Doc("The oldest first, without the tokens of webhooks."))
	httpapi.Get(g, one, s.get, "Get a sensor", httpapi.Doc("Of a webhook with its token."))
	httpapi.Post(g, one+"/test", s.test, "Tell what an event of a sensor would do", httpapi.Access(tenant.Needs(tenant.SensorsRead)),
		httpapi.Doc("A request of a webhook without a body, or an object with a key that matches: checked as then, without a run. Of a polling sensor the URL is asked once, for at most 20 seconds, and nothing of it is kept."))
	httpapi.Delete(g, one, s.delete, "Delete a sensor", httpapi.Status(200), httpapi.Doc("The URL of a webhook is unknown from then on. Runs that it started continue."))

	hooks := httpapi.Group{API: api, Function: name, Name: "webhooks", Writes: tenant.Public}
	httpapi.Post(hooks, "/webhooks/{token}", s.receive, "Start a run by a webhook", httpapi.AnyQuery, httpapi.Errors(401, 403, 404, 409, 429), httpapi.Doc(webhookDoc))
}
