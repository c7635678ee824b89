package worker_test

import (
	"os"
	"testing"

	"millrace/localstack/proof/seed"
)

// TestMain makes the simulations play the same histories in every run. New
// ones:
//
//	go test ./shared/run/worker -run TestSimulated -rapid.seed=$RANDOM -rapid.checks=1000
func TestMain(m *testing.M) {
	seed.Fix()
	os.Exit(m.Run())
}
