package launch_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/embedded/pebbletable"
	"millrace/localstack/embedded/store"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/queue"
	"millrace/shared/run/launch"
)

// unreachable are queues that take no messages.
type unreachable struct{ queue.Queues }

func (unreachable) Send(context.Context, string, ...queue.Message) error {
	return errors.New("no queue")
}

// TestAcceptedRunsSurvivePowerCuts checks that a run is durable when it is
// accepted, whether its message, which makes both durable, is sent or not.
func TestAcceptedRunsSurvivePowerCuts(t *testing.T) {
	t.Parallel()
	for name, sends := range map[string]bool{"sent": true, "not sent": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				disk := vfs.NewCrashableMem()
				open := func(fs vfs.FS) *store.DB {
					db, err := store.Open("store", store.Options{FS: fs, FullSync: true, Simulated: true})
					require.NoError(t, err)
					t.Cleanup(func() { require.NoError(t, db.Close()) })
					return db
				}
				db := open(disk)
				k := newKeysIn(t, db)
				l := k.launcher(k.store)
				if !sends {
					l.Queues = unreachable{l.Queues}
				}
				run, err := l.Accept(k.ctx, org, launch.Request{Flow: "f", Version: "1", Trigger: launch.Manual})
				require.NoError(t, err)
				left := pebbletable.New(open(disk.CrashClone(vfs.CrashCloneCfg{})), clock.System{})
				_, err = left.Get(t.Context(), run.Key)
				assert.NoError(t, err)
			})
		})
	}
}
