package outbound

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestOrigin(t *testing.T) {
	t.Parallel()
	for _, same := range [][2]string{{"http://a.test/x", "http://A.test:80/y"}, {"https://a.test", "https://a.test:443"}, {"http://[::1]/", "http://[::1]:80/"}} {
		assert.Equal(t, originOf(t, same[0]), originOf(t, same[1]))
	}
	for _, other := range [][2]string{{"http://a.test", "https://a.test"}, {"http://a.test", "http://a.test:81"}, {"http://a.test", "http://b.test"}, {"http://k.test", "http://\u212a.test"}} {
		assert.NotEqual(t, originOf(t, other[0]), originOf(t, other[1]))
	}
}

func originOf(t *testing.T, raw string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, raw, nil)
	require.NoError(t, err)
	return origin(req.URL)
}
