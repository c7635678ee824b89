package substrate_test

import (
	"testing"

	"millrace/localstack/localtest"
	"millrace/localstack/substrate"
)

func TestEmbedded(t *testing.T) {
	t.Parallel()
	substrate.Exercise(t, func(*testing.T) localtest.Options { return localtest.Options{} })
}
