package backfills

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/cli/session"
)

func TestListReadsPagesUpToItsLimit(t *testing.T) {
	t.Parallel()
	for limit, want := range map[int][]string{
		2:   {"/backfills?limit=2"},
		700: {"/backfills?limit=500", "/backfills?limit=200&next_token=500"},
	} {
		var asked []string
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked = append(asked, r.URL.String())
			size, _ := strconv.Atoi(r.URL.Query().Get("limit"))
			item := `{"backfill_id":"bf_1","flow_name":"etl","status":"COMPLETED","created_at":"2026-03-01T10:00:00.000Z"}`
			fmt.Fprintf(w, `{"items":[%s],"next_token":"%d"}`, strings.Repeat(item+",", size-1)+item, size)
		}))
		s := &session.Session{}
		c := s.Commands(Commands(s)...)[0]
		var out bytes.Buffer
		c.SetOut(&out)
		c.SetArgs([]string{"list", "--limit", strconv.Itoa(limit), "--url", server.URL, "--api-key", "svc_x"})
		require.NoError(t, c.ExecuteContext(t.Context()))
		server.Close()
		assert.Equal(t, want, asked)
		assert.Equal(t, limit, strings.Count(out.String(), "bf_1"))
	}
}
