package session

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/cli/command"
	"millrace/localstack/client"
)

func TestItemsAreFoundByNameOrID(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, "/sensors", r.URL.Path)
		if r.URL.Query().Get("next_token") == "" {
			fmt.Fprint(w, `{"items": [{"sensor_id": "1", "name": "orders"}, {"sensor_id": "2", "name": "twice"}], "next_token": "n"}`)
			return
		}
		fmt.Fprint(w, `{"items": [{"sensor_id": "3", "name": "twice"}, {"sensor_id": "4"}]}`)
	}))
	t.Cleanup(server.Close)
	api := &client.Client{BaseURL: server.URL}
	n := Named{Path: "/sensors", Field: "sensor_id", Noun: "sensor", List: "millrace sensors list"}
	for name, c := range map[string]struct {
		id, err string
		code    int
	}{
		"orders":                         {"1", "", command.Done},
		"sen_01M83SHV64CBAVXMHKV5PSYY0G": {"sen_01M83SHV64CBAVXMHKV5PSYY0G", "", command.Done},
		"twice":                          {"", "2 are named twice: name the id of the sensor, 2 or 3", command.Failure},
		"none":                           {"", "there is no sensor none: millrace sensors list shows them", command.NotFound},
		"":                               {"", "there is no sensor : millrace sensors list shows them", command.NotFound},
	} {
		id, err := n.Find(t.Context(), api, name)
		assert.Equal(t, c.id, id, name)
		assert.Equal(t, c.code, command.Code(err), name)
		if c.err != "" {
			require.EqualError(t, err, c.err, name)
		}
	}
}
