package output

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTableOfAProgramAndOfATerminal(t *testing.T) {
	t.Parallel()
	rows := [][]string{{"größer", "FAILED", "no price for\njam"}, {"a", "RUNNING", ""}}
	var b bytes.Buffer
	require.NoError(t, New(&b, false).Table([]string{"RUN", "STATUS", "WHY"}, rows))
	assert.Equal(t, "RUN     STATUS   WHY\ngrößer  FAILED   no price for\na       RUNNING  \n", b.String())

	b.Reset()
	screen := &Screen{to: &b, color: true}
	terminal := &Printer{Terminal: true, screen: screen, width: 27, out: screen}
	require.NoError(t, terminal.Table([]string{"RUN", "STATUS", "WHY"}, rows))
	assert.Equal(t, "RUN     STATUS   WHY\ngrößer  \x1b[31mFAILED\x1b[0m   no price …\na       \x1b[34mRUNNING\x1b[0m  \n", b.String())
}

func TestJSONIsIndentedForPeopleOnly(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	require.NoError(t, New(&b, true).Value(json.RawMessage("{ \"a\": \"<&>\" }")))
	assert.Equal(t, "{\"a\":\"<&>\"}\n", b.String())
	b.Reset()
	require.NoError(t, (&Printer{Terminal: true, out: &b}).Value(json.RawMessage(`{"a":1}`)))
	assert.Equal(t, "{\n  \"a\": 1\n}\n", b.String())
	b.Reset()
	require.NoError(t, New(&b, true).Line(map[string]string{"a": "<"}))
	assert.Equal(t, "{\"a\":\"<\"}\n", b.String())
}

func TestTimesAndDurations(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.FixedZone("", 3600))
	assert.Equal(t, "2026-01-02T02:04:05Z", New(&bytes.Buffer{}, false).Time(at))
	assert.Empty(t, New(&bytes.Buffer{}, false).Time(time.Time{}))
	for ms, want := range map[int64]string{0: "0ms", 999: "999ms", 1500: "1.5s", 61_000: "1m1s", 7_200_000: "2h0m0s"} {
		assert.Equal(t, want, Duration(ms))
	}
}
