package space_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/embedded/space"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/table"
)

const mb = 1 << 20

func TestAdmit(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name        string
		free, total uint64
		bytes, file int64 // arguments of Admit and AdmitFile
		refused     bool
	}{
		{"room", 1000 * mb, 8000 * mb, 1000, 1000, false},
		{"less than the reserve", 255 * mb, 8000 * mb, 1, 1, true},
		{"small disk", 20 * mb, 80 * mb, 1, 1, false},
		{"small disk full", 9 * mb, 80 * mb, 1, 1, true},
		{"a database's overhead", 356 * mb, 8000 * mb, 50 * mb, 0, true},
		{"a file has none", 356 * mb, 8000 * mb, 0, 50 * mb, false},
		{"too large a file", 356 * mb, 8000 * mb, 0, 101 * mb, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var log bytes.Buffer
			s := space.New(func() (free, total uint64, err error) { return tt.free, tt.total, nil }, slog.New(slog.NewTextHandler(&log, nil)))
			err := errors.Join(s.Admit(t.Context(), int(tt.bytes)), s.AdmitFile(t.Context(), tt.file))
			assert.Equal(t, tt.refused, errors.Is(err, space.ErrFull), "%v", err)
			assert.Equal(t, tt.refused, log.Len() > 0)
			reclaiming := table.Reclaiming(t.Context())
			assert.NoError(t, s.Admit(reclaiming, int(tt.bytes)))
			assert.NoError(t, s.AdmitFile(reclaiming, tt.file))
		})
	}
}

func TestErrFullIsUnavailable(t *testing.T) {
	t.Parallel()
	s := space.New(func() (free, total uint64, err error) { return 10 * mb, 8000 * mb, nil }, slog.New(slog.DiscardHandler))
	err := fmt.Errorf("put item: %w", s.Admit(t.Context(), 1))
	require.ErrorIs(t, err, space.ErrFull)
	e, ok := errors.AsType[*errs.Error](err)
	require.True(t, ok)
	assert.Equal(t, errs.Unavailable, e.Code)
	assert.Equal(t, "the disk of the data directory is nearly full: 10 MB are free and 256 MB are kept so: "+
		"writes are refused until there is more room", e.Message)
	assert.Equal(t, 10*time.Second, e.RetryAfter)
}

func TestNilSpaceIsUnlimited(t *testing.T) {
	t.Parallel()
	for _, s := range []*space.Space{nil, {}} {
		assert.NoError(t, s.Admit(t.Context(), 1<<40))
		assert.NoError(t, s.AdmitFile(t.Context(), 1<<60))
	}
	unread := space.New(func() (free, total uint64, err error) { return 0, 0, errors.New("no disk") }, slog.New(slog.DiscardHandler))
	assert.NoError(t, unread.Admit(t.Context(), 1), "a disk that cannot be read is taken for room")
}
