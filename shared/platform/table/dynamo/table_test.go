package dynamo_test

import (
	"os"
	"strings"
	"testing"

	"millrace/localstack/emulators"
	"millrace/localstack/proof/seed"
	"millrace/shared/platform/table"
	"millrace/shared/platform/table/tabletest"
)

func TestMain(m *testing.M) {
	seed.Fix()
	os.Exit(m.Run())
}

func TestTable(t *testing.T) {
	t.Parallel()
	tbl := emulators.Table(t)
	deviations := tabletest.DynamoDBLocal
	if strings.Contains(emulators.DynamoDB(t).URL, ".amazonaws.com") {
		deviations = tabletest.Deviations{} // the real DynamoDB
	}
	tabletest.Exercise(t, func(*testing.T) table.Table { return tbl }, deviations)
}
