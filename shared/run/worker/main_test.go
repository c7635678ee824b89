package worker_test

import (
	"os"
	"testing"

	"millrace/localstack/proof/seed"
)

// TestMain has the simulations play the same histories at every run. New ones:
//
//	go test ./shared/run/worker -run TestSimulated -rapid.seed=$RANDOM -rapid.checks=1000
func TestMain(m *testing.M) {
	seed.Fix()
	os.Exit(m.Run())
}
