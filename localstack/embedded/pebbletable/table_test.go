package pebbletable_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"millrace/localstack/embedded/pebbletable"
	"millrace/localstack/embedded/store"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/table"
	"millrace/shared/platform/table/tabletest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	tabletest.Exercise(t, func(t *testing.T) table.Table { return open(t) }, tabletest.Embedded)
}

func TestConformanceInMemory(t *testing.T) {
	t.Parallel()
	tabletest.Exercise(t, func(t *testing.T) table.Table {
		db, err := store.OpenMemory()
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, db.Close()) })
		return pebbletable.New(db, clock.System{})
	}, tabletest.Embedded)
}
