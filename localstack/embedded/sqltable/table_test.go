package sqltable_test

import (
	"testing"

	"millrace/shared/table"
	"millrace/shared/table/tabletest"
)

func TestTable(t *testing.T) {
	t.Parallel()
	tabletest.Exercise(t, func(t *testing.T) table.Table { return open(t) })
}
