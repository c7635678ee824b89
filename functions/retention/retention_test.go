package retention_test

import (
	"strings"
	"testing"
	"time"

	lambda "github.com/aws/aws-lambda-go/events"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	functions "millrace/functions/retention"
	"millrace/localstack/proof/localtest"
	"millrace/shared/account/quota"
	"millrace/shared/account/retention"
	"millrace/shared/kit/due"
	"millrace/shared/platform/blob"
	"millrace/shared/platform/blob/blobtest"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/ids"
	"millrace/shared/platform/table"
	"millrace/shared/run/engine"
	"millrace/shared/run/runstate"
)

const day = 24 * time.Hour

type world struct {
	*localtest.Env
	t *testing.T
}

func open(t *testing.T, limits ...string) world {
	t.Helper()
	return world{localtest.Open(t, localtest.Options{Blob: &blobtest.Memory{}, Limits: limits}, functions.Spec), t}
}

// sweep delivers the workspace's message, and returns when the next is due.
func (w world) sweep() time.Time {
	w.t.Helper()
	load := func() retention.Sweep {
		s, err := table.Load[retention.Sweep](w.t.Context(), w.Deps.Table, retention.Key(w.A.OrgID), table.Consistent)
		require.NoError(w.t, err)
		return s
	}
	s := load()
	m, err := due.Message(retention.Sweeping, s.Key, s.DueSK, time.Time{})
	require.NoError(w.t, err)
	out, err := functions.Spec.Messages(w.Deps)(w.t.Context(), lambda.SQSEvent{Records: []lambda.SQSMessage{{MessageId: "m", Body: string(m.Body)}}})
	require.NoError(w.t, err)
	require.Empty(w.t, out.BatchItemFailures)
	return load().DueAt.Time()
}

// run stores an object of a run that was created at a time, and its record
// unless its expiry is negative.
func (w world) run(org string, at time.Time, expires int64) string {
	w.t.Helper()
	id := ids.New(at)
	if expires >= 0 {
		require.NoError(w.t, w.Deps.Table.Put(w.t.Context(), table.Put{Item: runstate.Run{
			Key: runstate.RunKey(org, id), Org: org, ID: id, Status: engine.Running, CreatedAt: clock.ToMillis(at), Expires: expires,
		}}))
	}
	w.object(runstate.Object(org, id, "out/1-1.json"))
	w.object(runstate.Object(org, id, "log-x.ndjson.gz"))
	return id
}

func (w world) object(key string) {
	w.t.Helper()
	_, err := blob.PutBytes(w.t.Context(), w.Deps.Blob, key, []byte("1"), blob.PutOptions{})
	require.NoError(w.t, err)
}

// left returns the ids of the runs of a workspace that have both objects.
func (w world) left(org string) (out []string) {
	w.t.Helper()
	objects, _, err := w.Deps.Blob.List(w.t.Context(), org+"/runs/", "", 0)
	require.NoError(w.t, err)
	for i := 0; i < len(objects); i += 2 {
		out = append(out, strings.Split(objects[i].Key, "/")[2])
	}
	return out
}

func TestObjectsOfExpiredRunsAreRemoved(t *testing.T) {
	t.Parallel()
	w := open(t, "run-retention-days=30")
	now, org := w.Clock.Now(), w.A.OrgID
	slack := runstate.Slack
	gone := w.run(org, now.Add(-40*day), -1)
	live := w.run(org, now.Add(-39*day), 0)
	long := w.run(org, now.Add(-38*day), now.Add(day).Unix())
	slackened := w.run(org, now.Add(-37*day), now.Add(-slack+time.Hour).Unix())
	expired := w.run(org, now.Add(-36*day), now.Add(-slack-time.Hour).Unix())
	young := w.run(org, now.Add(-30*day), -1) // its record is not asked for
	other := w.run(w.B.OrgID, now.Add(-40*day), -1)
	artifact := org + "/artifacts/f/1/code.zip"
	w.object(artifact)

	next := w.sweep()
	assert.Equal(t, []string{live, long, slackened, young}, w.left(org), "%s and %s are gone", gone, expired)
	assert.Equal(t, []string{other}, w.left(w.B.OrgID))
	_, err := w.Deps.Blob.Head(t.Context(), artifact)
	assert.NoError(t, err, "artifacts stay")
	assert.Equal(t, retention.Next(org, w.Clock.Now()), next)
	assert.True(t, next.After(now) && next.Before(now.Add(2*day)))
}

// TestWorkspaceHasItsOwnRetention keeps the runs of one workspace for a day.
func TestWorkspaceHasItsOwnRetention(t *testing.T) {
	t.Parallel()
	w := open(t, "plan=unlimited")
	values, err := quota.ParseValues([]string{"plan=unlimited", "run-retention-days@" + w.A.OrgID + "=1"})
	require.NoError(t, err)
	w.Deps.Quota = quota.New(quota.Config{Table: w.Deps.Table, Clock: w.Clock, Values: values})
	now := w.Clock.Now()
	w.run(w.A.OrgID, now.Add(-8*day), -1)
	young := w.run(w.A.OrgID, now.Add(-day), -1)
	other := w.run(w.B.OrgID, now.Add(-800*day), -1)
	w.sweep()
	assert.Equal(t, []string{young}, w.left(w.A.OrgID))
	assert.Equal(t, []string{other}, w.left(w.B.OrgID))
}

func TestUnlimitedRetentionRemovesNothing(t *testing.T) {
	t.Parallel()
	w := open(t, "plan=unlimited")
	old := w.run(w.A.OrgID, w.Clock.Now().AddDate(-5, 0, 0), -1)
	w.sweep()
	assert.Equal(t, []string{old}, w.left(w.A.OrgID))
}

func TestLostBodiesOfMessagesAreRemoved(t *testing.T) {
	t.Parallel()
	w := open(t)
	key := w.A.OrgID + "/messages/b1"
	w.object(key)
	w.Clock.Advance(14 * day)
	w.sweep()
	_, err := w.Deps.Blob.Head(t.Context(), key)
	require.NoError(t, err, "a queue may have its message")
	w.Clock.Advance(2 * day)
	w.sweep()
	_, err = w.Deps.Blob.Head(t.Context(), key)
	assert.ErrorIs(t, err, blob.ErrNotFound)
}

func TestManyObjectsAreRemovedInSteps(t *testing.T) {
	t.Parallel()
	w := open(t, "run-retention-days=1")
	at := w.Clock.Now().Add(-10 * day)
	for i := range 1500 {
		w.object(runstate.Object(w.A.OrgID, ids.New(at.Add(time.Duration(i)*time.Second)), "out/1-1.json"))
	}
	w.sweep()
	assert.Empty(t, w.left(w.A.OrgID))
}
