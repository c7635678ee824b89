package gateway

import (
	"cmp"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"millrace/shared/platform/ids"
)

// Response replaces one of the gateway's own responses.
type Response struct {
	Status   int               // 0 means the default
	Template string            // of the body; "" means the default
	Headers  map[string]string // values by "gatewayresponse.header.NAME"
}

// kind is a kind of the gateway's own responses.
type kind struct {
	name, class string
	status      int
	message     string
}

var (
	missing  = kind{"MISSING_AUTHENTICATION_TOKEN", "DEFAULT_4XX", http.StatusForbidden, "Missing Authentication Token"}
	tooLarge = kind{"REQUEST_TOO_LARGE", "DEFAULT_4XX", http.StatusRequestEntityTooLarge, "Request Too Long"}
	failed   = kind{"INTEGRATION_FAILURE", "DEFAULT_5XX", http.StatusBadGateway, "Internal server error"}
	timedOut = kind{"INTEGRATION_TIMEOUT", "DEFAULT_5XX", http.StatusGatewayTimeout, "Endpoint request timed out"}
)

// plain is the gateway's default template.
const plain = `{"message":$context.error.messageString}`

// respond sends one of the gateway's own responses. Headers may have the value
// of the request's id or of its Origin header; a value without source is omitted.
func (cfg *Config) respond(w http.ResponseWriter, r *http.Request, k kind) {
	own, found := cfg.Responses[k.name]
	if !found {
		own = cfg.Responses[k.class]
	}
	quoted, err := json.Marshal(k.message)
	if err != nil {
		panic(err) // strings always marshal
	}
	known := strings.NewReplacer("$context.error.messageString", string(quoted), "$context.error.message", k.message, "context.requestId", ids.New(time.Now()),
		"method.request.header.Origin", r.Header.Get("Origin"))
	w.Header().Set("Content-Type", "application/json")
	for name, value := range own.Headers {
		if header, is := strings.CutPrefix(name, "gatewayresponse.header."); is {
			if value = strings.Trim(known.Replace(value), "'"); value != "" {
				w.Header().Set(header, value)
			}
		}
	}
	w.WriteHeader(cmp.Or(own.Status, k.status))
	_, _ = w.Write([]byte(known.Replace(cmp.Or(own.Template, plain)))) // the client may have disconnected
}
