package general

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"millrace/localstack/cli/session"
	"millrace/localstack/client"
)

const (
	// soon is how long before it expires a credential is to be replaced.
	soon = 14 * 24 * time.Hour
	// old is the age at which a server's keys are to be replaced, that at which KMS
	// replaces those of a deployment.
	old = 365 * 24 * time.Hour
)

// credentialOf tells when the credential in use expires. Only a key that may list
// keys sees that of its own.
func credentialOf(ctx context.Context, target session.Target) []finding {
	if !target.ExpiresAt.IsZero() {
		return []finding{expiry("the sign-in", target.ExpiresAt, "millrace login --url "+target.URL)}
	}
	var keys struct {
		Items []struct {
			Name    string `json:"name"`
			Prefix  string `json:"key_prefix"`
			Expires *int64 `json:"expires_at"` // Unix seconds
		} `json:"items"`
	}
	if target.Client().Do(ctx, http.MethodGet, "/api-keys", nil, &keys) != nil {
		return nil
	}
	for _, k := range keys.Items {
		if k.Prefix == "" || !strings.HasPrefix(target.APIKey, k.Prefix) {
			continue
		}
		what := fmt.Sprintf("%s… (%s)", k.Prefix, k.Name)
		if k.Expires == nil {
			return []finding{{"expiry", true, what + " does not expire"}}
		}
		return []finding{expiry(what, time.Unix(*k.Expires, 0), "make another with millrace keys create")}
	}
	return nil
}

// expiry is the finding about a credential that expires.
func expiry(what string, at time.Time, advice string) finding {
	left := time.Until(at)
	f := finding{"expiry", left > soon, fmt.Sprintf("%s expires on %s", what, at.Local().Format("2006-01-02 15:04"))}
	if !f.OK {
		f.Detail += ": " + advice
	}
	return f
}

// state is what only the embedded server itself knows, from its local route.
type state struct {
	Dir        string    `json:"data"`
	KeysMadeAt time.Time `json:"keys_made_at"`
	Spans      *struct {
		Collector string    `json:"collector"`
		Exported  int       `json:"exported"`
		Lost      int       `json:"lost"`
		Error     string    `json:"error"`
		FailedAt  time.Time `json:"failed_at"`
		Failing   bool      `json:"failing"`
	} `json:"spans"`
}

// stateOf asks a server of this machine for the age of its keys and the state of
// the export of spans. Others have no such route, and alarms instead.
func stateOf(ctx context.Context, target session.Target) []finding {
	if target.Operator == "" {
		return nil
	}
	var now state
	operator := client.Client{BaseURL: target.URL, Token: target.Operator}
	err := operator.Do(ctx, http.MethodGet, "/_local/state", nil, &now)
	if refused, ok := errors.AsType[*client.Error](err); ok && refused.Status == http.StatusNotFound {
		return nil // an older server, or the emulation of a deployment
	}
	if err != nil {
		return []finding{{"keys", false, textOr("", err)}}
	}
	return slices.Concat(now.keys(), now.spans())
}

func (s state) keys() []finding {
	if s.KeysMadeAt.IsZero() {
		return nil
	}
	age := time.Since(s.KeysMadeAt)
	f := finding{"keys", age < old, fmt.Sprintf("of lists and secret values were made on %s", s.KeysMadeAt.Local().Format(time.DateOnly))}
	if !f.OK {
		f.Detail += ", over a year ago: stop the server, make new ones with millrace rotate-keys --data " + s.Dir + ", and start it"
	}
	return []finding{f}
}

func (s state) spans() []finding {
	e := s.Spans
	if e == nil {
		return nil
	}
	f := finding{"spans", !e.Failing, fmt.Sprintf("%d exported to %s", e.Exported, e.Collector)}
	if e.Lost > 0 {
		f.Detail += fmt.Sprintf(", %d lost", e.Lost)
	}
	if e.Error != "" {
		f.Detail += fmt.Sprintf(", the last on %s: %s", e.FailedAt.Local().Format("2006-01-02 15:04"), e.Error)
	}
	if e.Failing {
		f.Detail += ": check OTEL_EXPORTER_OTLP_ENDPOINT and OTEL_EXPORTER_OTLP_HEADERS of the server, and the collector"
	}
	return []finding{f}
}
