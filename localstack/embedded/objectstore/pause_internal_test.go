package objectstore

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/versity/versitygw/s3err"
)

func TestPauseWaitsForDeletionInProgress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPauses()
		leave, err := p.enter(t.Context())
		require.NoError(t, err)
		time.AfterFunc(time.Minute, leave)
		begun := time.Now()
		resume := p.pause()
		assert.Equal(t, time.Minute, time.Since(begun))

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = p.enter(ctx)
		var refused s3err.S3Error
		require.ErrorAs(t, err, &refused)
		assert.Equal(t, http.StatusServiceUnavailable, refused.StatusCode())
		assert.Equal(t, time.Minute+time.Second, time.Since(begun), "as long as the request has time")

		time.AfterFunc(time.Minute, resume)
		leave, err = p.enter(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 2*time.Minute+time.Second, time.Since(begun))
		leave()
	})
}
