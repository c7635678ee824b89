// Command coverage compares the coverage of a test run with a list: each line
// of code that the tests did not run must be in the list, with the reason why
// they cannot reach it. New lines that are not run are therefore noticed, and
// the known ones are documented.
//
// The list identifies a line by its function and its text, not by its number,
// so it survives changes elsewhere in the file. See [List] for its form.
//
// Tests that draw what they do run some lines by chance. With the profiles of
// several test runs a line counts as run if one of them ran it; -update, on the
// other hand, lists each line that one of them did not run.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
)

func main() {
	list := flag.String("list", "", "the list of the lines that are not run")
	update := flag.Bool("update", false, "write the list anew: lines that every test run ran go, others come without a reason")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: coverage -list FILE [-update] PROFILE...  (as go test -coverprofile writes them)")
		flag.PrintDefaults()
	}
	flag.Parse()
	if err := run(flag.Args(), *list, *update, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "coverage:", err)
		os.Exit(1)
	}
}

// errUnlisted means that list and coverage differ. The differences were
// printed.
var errUnlisted = errors.New("the list is not that of the lines that are not run")

func run(profiles []string, path string, update bool, out io.Writer) error {
	if len(profiles) == 0 {
		return errors.New("no profile")
	}
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	blocks, err := readProfiles(profiles)
	if err != nil {
		return err
	}
	lines, err := sourceLines(root, blocks)
	if err != nil {
		return err
	}
	list, err := ReadList(path)
	if err != nil {
		return err
	}
	if update {
		return os.WriteFile(path, []byte(list.Updated(lines, len(profiles)).String()), 0o644)
	}
	return list.Check(lines, out)
}
