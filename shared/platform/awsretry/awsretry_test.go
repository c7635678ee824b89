package awsretry_test

import (
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/platform/awsretry"
)

func TestNew(t *testing.T) {
	t.Parallel()
	r := awsretry.New(4, time.Second)
	assert.Equal(t, 4, r.MaxAttempts())
	assert.True(t, r.IsErrorRetryable(fmt.Errorf("read: %w", io.ErrUnexpectedEOF)))
	assert.False(t, r.IsErrorRetryable(errors.New("refused")), "as the SDK says of others")
	for attempt := range 30 {
		pause, err := r.RetryDelay(attempt, io.ErrUnexpectedEOF)
		require.NoError(t, err)
		assert.LessOrEqual(t, pause, time.Second)
	}
}
