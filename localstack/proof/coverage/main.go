// Command coverage compares the coverage of a test run with a list: each line
// of code that the tests did not run must be in the list, with the reason why
// they cannot reach it. New lines that are not run are therefore noticed, and
// the known ones are documented.
//
// The list identifies a line by its function and its text, not by its number,
// so it survives changes elsewhere in the file. See [List] for its form.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
)

func main() {
	profile := flag.String("profile", "", "what go test -coverprofile wrote")
	list := flag.String("list", "", "the list of the lines that are not run")
	update := flag.Bool("update", false, "write the list anew: lines that are run go, others come without a reason")
	flag.Parse()
	if err := run(*profile, *list, *update, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "coverage:", err)
		os.Exit(1)
	}
}

// errUnlisted means that list and coverage differ. The differences were
// printed.
var errUnlisted = errors.New("the list is not that of the lines that are not run")

func run(profile, path string, update bool, out io.Writer) error {
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	blocks, err := readProfile(profile)
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
		return os.WriteFile(path, []byte(list.Updated(lines).String()), 0o644)
	}
	return list.Check(lines, out)
}
