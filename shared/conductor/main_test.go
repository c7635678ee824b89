package conductor_test

import (
	"flag"
	"fmt"
	"os"
	"testing"
)

// simSeed is what the simulations draw from unless -rapid.seed says otherwise:
// a change is tried on the same histories as the last one. New histories:
//
//	go test ./shared/conductor -run TestSimulated -rapid.seed=$RANDOM -rapid.checks=1000
const simSeed = "1"

func TestMain(m *testing.M) {
	flag.Parse()
	if f := flag.Lookup("rapid.seed"); f != nil && f.Value.String() == "0" {
		if err := f.Value.Set(simSeed); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}
