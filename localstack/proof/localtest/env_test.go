package localtest_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/functions/auth"
	"millrace/functions/orgs"
	"millrace/localstack/proof/localtest"
	"millrace/shared/account/tenant"
	"millrace/shared/platform/blob"
)

func TestWorkspacesAreIsolated(t *testing.T) {
	t.Parallel()
	env := localtest.New(t, auth.Spec, orgs.Spec)
	assert.NotEqual(t, env.A.OrgID, env.B.OrgID)
	for _, w := range []localtest.Workspace{env.A, env.B} {
		me := env.Do(t, w.Key, "GET", "/me", nil).Require(t, 200)
		assert.Equal(t, w.OrgID, me.String(t, "org_id"))
		for _, role := range tenant.Roles() {
			me := env.Do(t, env.User(t, w, role), "GET", "/me", nil).Require(t, 200)
			assert.Equal(t, string(role), me.String(t, "role"))
			assert.Equal(t, w.OrgID, me.String(t, "org_id"))
			assert.Equal(t, localtest.UserEmail(w, role), me.String(t, "user_email"))
		}
	}
}

func TestEnvWorksInSynctestBubble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		env := localtest.New(t, auth.Spec)
		token := env.SignIn(t, env.A.Owner)
		env.Do(t, token, "GET", "/me", nil).Require(t, 200)
		time.Sleep(2 * time.Hour) // of the bubble's time
		env.Do(t, token, "GET", "/me", nil).Require(t, 401)
	})
}

func TestClockMoves(t *testing.T) {
	t.Parallel()
	env := localtest.New(t, auth.Spec)
	token := env.SignIn(t, env.A.Owner)
	env.Clock.Advance(59 * time.Minute)
	env.Do(t, token, "GET", "/me", nil).Require(t, 200)
	env.Clock.Advance(time.Hour)
	env.Do(t, token, "GET", "/me", nil).Require(t, 401)
	at := time.Date(2031, 1, 2, 3, 4, 5, 0, time.UTC)
	env.Clock.Set(at)
	assert.WithinDuration(t, at, env.Clock.Now(), time.Minute)
}

func TestObjectStore(t *testing.T) {
	env := localtest.New(t)
	other := localtest.New(t)
	require.NoError(t, env.Deps.Blob.Check(t.Context()))
	_, err := env.Deps.Blob.Put(t.Context(), env.A.OrgID+"/a", strings.NewReader("hello"), 5, blob.PutOptions{})
	require.NoError(t, err)
	obj, err := other.Deps.Blob.Head(t.Context(), env.A.OrgID+"/a")
	require.NoError(t, err)
	assert.EqualValues(t, 5, obj.Size)
}
