package dynamo_test

import (
	"strings"
	"testing"

	"millrace/localstack/emulators"
	"millrace/shared/table"
	"millrace/shared/table/tabletest"
)

func TestTable(t *testing.T) {
	t.Parallel()
	tbl := emulators.Table(t)
	deviations := tabletest.DynamoDBLocal
	if strings.Contains(emulators.DynamoDB(t).URL, ".amazonaws.com") {
		deviations = tabletest.Deviations{} // it is the real one
	}
	tabletest.Exercise(t, func(*testing.T) table.Table { return tbl }, deviations)
}
