package drivers_test

import (
	"testing"

	"millrace/localstack/proof/drivers"
	"millrace/localstack/proof/localtest"
)

func TestEmbedded(t *testing.T) {
	t.Parallel()
	drivers.Exercise(t, func(*testing.T) localtest.Options { return localtest.Options{} })
}
