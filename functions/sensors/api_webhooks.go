package sensors

// WebhookResponse tells of the run that a webhook's request started.
type WebhookResponse struct {
	Triggered   bool   `json:"triggered"`
	SensorID    string `json:"sensor_id"`
	FlowName    string `json:"flow_name"`
	FlowVersion string `json:"flow_version"`
	RunID       string `json:"run_id"`
}

type webhookIn struct {
	Token   string `path:"token"`
	RawBody []byte
}

// webhookDoc describes POST /webhooks/{token}.
const webhookDoc = "The token is the only credential. Any body is accepted, of up to 4 MB: the fields of its object `parameters`, or else its top-level fields, are parameters of the run, over the sensor's own; " +
	"a body that is empty or no JSON object has none. Top-level fields that the flow's parameters do not name are dropped if these come from a Python signature; `parameters` is checked in full. " +
	"Query parameters are ignored. The run is of the latest registered version of the flow; 422 if there is none.\n\n" +
	"At most 60 requests in a minute of the clock are accepted for each token. Each of them starts a run, also a repeated one, unless the sensor's config names the id of events."
