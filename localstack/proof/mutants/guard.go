package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Guard is a place in the source without which an invariant breaks.
type Guard struct {
	Name   string
	Holds  string // what it sees to
	In     string // the package's folder, from the module's root
	Text   string // the source that is the guard; it occurs once in the package
	Broken string // what stands in its place when it is broken
	Tests  Tests  // those that should notice
}

// Tests are tests of one package.
type Tests struct {
	Package string // from the module's root
	Run     string // names, with | between them
}

// The packages that have most of the guards.
const (
	conductorDir = "shared/conductor"
	engineDir    = "shared/engine"
	runstateDir  = "shared/runstate"
	launchDir    = "shared/launch"
)

func conductor(run string) Tests { return Tests{conductorDir, run} }
func engine(run string) Tests    { return Tests{engineDir, run} }
func runstate(run string) Tests  { return Tests{runstateDir, run} }
func launch(run string) Tests    { return Tests{launchDir, run} }

// all lists the guards.
func all() []Guard {
	return slices.Concat(leases(), attempts(), runs(), walks(), looks(), maps(), plans(), acceptance(), tenants(), stores())
}

// apply returns the file that the guard is in, and its source with the guard
// broken.
func (g Guard) apply(root string) (file string, broken []byte, err error) {
	files, err := filepath.Glob(filepath.Join(root, g.In, "*.go"))
	if err != nil {
		return "", nil, err
	}
	found := 0
	for _, f := range files {
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		source, err := os.ReadFile(f)
		if err != nil {
			return "", nil, err
		}
		if n := bytes.Count(source, []byte(g.Text)); n > 0 {
			found += n
			file, broken = f, bytes.Replace(source, []byte(g.Text), []byte(g.Broken), 1)
		}
	}
	if found != 1 {
		return "", nil, fmt.Errorf("the guard's text occurs %d times in %s, not once: %q", found, g.In, g.Text)
	}
	return file, broken, nil
}
