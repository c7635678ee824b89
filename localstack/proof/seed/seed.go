// Package seed has the random tests of a package draw the same histories at every
// run, so that a change is tried on those of the last one.
package seed

import (
	"flag"
	"fmt"
	"os"
)

// Fix parses the flags and sets what package rapid draws from, unless
// -rapid.seed says otherwise. For a TestMain.
func Fix() {
	flag.Parse()
	if f := flag.Lookup("rapid.seed"); f != nil && f.Value.String() == "0" {
		if err := f.Value.Set("1"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}
