package dynamo_test

import (
	"testing"

	"millrace/localstack/emulators"
	"millrace/shared/table"
	"millrace/shared/table/tabletest"
)

func TestTable(t *testing.T) {
	t.Parallel()
	tbl := emulators.Table(t)
	tabletest.Exercise(t, func(*testing.T) table.Table { return tbl }, tabletest.DynamoDBLocal)
}
