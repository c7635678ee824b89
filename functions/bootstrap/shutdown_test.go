package main

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/proof/localtest"
	"millrace/localstack/runtimeapi"
	"millrace/shared/platform/blob/blobtest"
	"millrace/shared/run/runlog"
	"millrace/shared/web/fn"
)

// TestProcessRegistersForSIGTERM: Lambda sends it only to environments with an
// extension.
func TestProcessRegistersForSIGTERM(t *testing.T) {
	t.Parallel()
	for handler, asks := range map[string]bool{"taskworker": true, "runs": true, "scheduler-tick": false} {
		api, err := runtimeapi.Start()
		require.NoError(t, err)
		end := process(t, api, handler)
		select {
		case <-api.Polled():
		case <-time.After(20 * time.Second):
			require.Fail(t, "no poll", handler)
		}
		assert.Equal(t, asks, len(api.Extensions()) == 1, handler)
		end()
		require.NoError(t, api.Close())
	}
}

// TestLogsAreStoredBeforeEnvironmentIsFrozen: after an event, and when the
// environment is shut down, no logs are buffered in memory.
func TestLogsAreStoredBeforeEnvironmentIsFrozen(t *testing.T) {
	t.Parallel()
	env := localtest.Open(t, localtest.Options{Blob: &blobtest.Memory{}})
	spec := fn.Spec{Name: "x", Handle: func(d fn.Deps) fn.Handler {
		return func(context.Context, json.RawMessage) (any, error) {
			d.Logs.Append(env.A.OrgID, "R", runlog.Event{Message: "in an event"})
			return nil, errors.New("failed")
		}
	}}
	p := &platform{spec: spec, deps: env.Deps}
	stored := func() int {
		env.Clock.Advance(time.Second)
		other := &runlog.Store{Table: env.Deps.Table, Blob: env.Deps.Blob, Clock: env.Clock, Log: env.Deps.Log}
		page, err := other.Page(t.Context(), env.A.OrgID, "R", false, "", 10)
		require.NoError(t, err)
		return len(page.Events)
	}
	_, err := p.handle(spec.Handle(p.deps))(t.Context(), nil)
	require.Error(t, err)
	require.Equal(t, 1, stored())
	p.deps.Logs.Append(env.A.OrgID, "R", runlog.Event{Message: "outside of one"})
	p.flush()
	require.Equal(t, 2, stored())
}
