package queue_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"millrace/shared/platform/queue"
)

func TestMessageCheck(t *testing.T) {
	t.Parallel()
	body := []byte(`{"a":"ü"}`)
	tests := []struct {
		name string
		msg  queue.Message
		ok   bool
	}{
		{"plain", queue.Message{Body: body}, true},
		{"with all", queue.Message{Body: body, Group: "ws_1", Delay: queue.MaxDelay}, true},
		{"largest", queue.Message{Body: bytes.Repeat([]byte{'x'}, queue.MaxBody)}, true},
		{"white space", queue.Message{Body: []byte("{\t\r\n}")}, true},
		{"longest group", queue.Message{Body: body, Group: strings.Repeat("g", queue.MaxGroup)}, true},
		{"empty", queue.Message{}, false},
		{"too large", queue.Message{Body: bytes.Repeat([]byte{'x'}, queue.MaxBody+1)}, false},
		{"not UTF-8", queue.Message{Body: []byte{'"', 0xff, '"'}}, false},
		{"control character", queue.Message{Body: []byte("\"\x01\"")}, false},
		{"negative delay", queue.Message{Body: body, Delay: -1}, false},
		{"long delay", queue.Message{Body: body, Delay: queue.MaxDelay + 1}, false},
		{"long group", queue.Message{Body: body, Group: strings.Repeat("g", queue.MaxGroup+1)}, false},
		{"space in group", queue.Message{Body: body, Group: "a b"}, false},
		{"letter beyond ASCII in group", queue.Message{Body: body, Group: "ü"}, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if err := test.msg.Check(); test.ok {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, queue.ErrLimit)
			}
		})
	}
}

func TestDefinitionCheck(t *testing.T) {
	t.Parallel()
	require.NoError(t, queue.Definition{Name: "run-Tasks_1", Visibility: time.Second}.Check())
	require.NoError(t, queue.Definition{Name: strings.Repeat("q", 75), Visibility: queue.MaxExtend}.Check())
	for _, bad := range []queue.Definition{
		{Visibility: time.Second},
		{Name: strings.Repeat("q", 76), Visibility: time.Second},
		{Name: "a.b", Visibility: time.Second},
		{Name: "a-dead", Visibility: time.Second},
		{Name: "a"},
		{Name: "a", Visibility: queue.MaxExtend + 1},
	} {
		require.ErrorIs(t, bad.Check(), queue.ErrLimit, "%+v", bad)
	}
}

func TestCheckReceiveAndExtend(t *testing.T) {
	t.Parallel()
	require.NoError(t, queue.CheckReceive(1, 0))
	require.NoError(t, queue.CheckReceive(queue.MaxBatch, queue.MaxWait))
	require.ErrorIs(t, queue.CheckReceive(0, 0), queue.ErrLimit)
	require.ErrorIs(t, queue.CheckReceive(queue.MaxBatch+1, 0), queue.ErrLimit)
	require.ErrorIs(t, queue.CheckReceive(1, -1), queue.ErrLimit)
	require.ErrorIs(t, queue.CheckReceive(1, queue.MaxWait+1), queue.ErrLimit)
	require.NoError(t, queue.CheckExtend(0))
	require.NoError(t, queue.CheckExtend(queue.MaxExtend))
	require.ErrorIs(t, queue.CheckExtend(-1), queue.ErrLimit)
	require.ErrorIs(t, queue.CheckExtend(queue.MaxExtend+1), queue.ErrLimit)
}
