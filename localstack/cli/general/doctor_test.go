package general

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"

	"millrace/localstack/cli/session"
)

// TestDoctorTellsWhyAServerIsUnhealthy asks one whose disk is full.
func TestDoctorTellsWhyAServerIsUnhealthy(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/health" {
			w.WriteHeader(http.StatusForbidden)
		}
		fmt.Fprint(w, `{"status": "unhealthy", "version": "1", "components": [
			{"name": "key_value_table", "status": "unhealthy", "message": "the disk is nearly full"},
			{"name": "message_queue", "status": "healthy", "message": "operational"}]}`)
	}))
	t.Cleanup(server.Close)
	findings := examine(t.Context(), &session.Session{URL: server.URL, APIKey: "k"}, "1")
	var wrong []finding
	for _, f := range findings {
		if f.What == "health" || f.What == "component" {
			wrong = append(wrong, f)
		}
	}
	assert.Equal(t, []finding{{"health", false, "unhealthy, version 1"}, {"component", false, "key_value_table: the disk is nearly full"}}, wrong)
}
