// Package seed makes the random tests of a package draw the same histories in
// every run, so that a change is tested with those of the previous one.
package seed

import (
	"flag"
	"fmt"
	"os"
)

// Fix parses the flags and sets the seed of package rapid, unless -rapid.seed
// is set. TestMain calls it.
func Fix() {
	flag.Parse()
	if f := flag.Lookup("rapid.seed"); f != nil && f.Value.String() == "0" {
		if err := f.Value.Set("1"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}
