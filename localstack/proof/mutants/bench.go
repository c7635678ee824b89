package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// suites are the packages whose tests must kill every mutant of the engine, the
// fastest first. The drivers' own suites run only for their own guards.
var suites = []string{"shared/run/engine", "shared/run/runstate", "shared/run/launch", "functions/runs", "shared/run/worker"}

// limit bounds one run of tests: a mutant that hangs is killed as well.
const limit = 6 * time.Minute

// bench builds and runs tests.
type bench struct {
	root   string
	suites []string
	dir    string          // its own directory, for overlays and test binaries
	rapid  map[string]bool // packages whose tests accept rapid's flags
}

// verdict is the result for a mutant.
type verdict struct {
	caught   bool
	by       string // the failed test, with its package
	expected bool   // the guard names the test
	took     time.Duration
}

func (v verdict) line(g Guard, good bool) string {
	word := map[bool]string{true: "caught", false: "survived"}[v.caught]
	if !good {
		word = strings.ToUpper(word)
	}
	line := fmt.Sprintf("%-8s  %-44s %5.1fs  %s", word, g.Name, v.took.Seconds(), v.by)
	if v.caught && !v.expected {
		line += " (expected: " + g.Tests.Run + ")"
	}
	if !v.caught && !good {
		line += "\n          " + g.Holds + "\n          " + g.Mark.String() + ": " + g.Mark.Op
	}
	return line
}

// moduleRoot returns the folder of go.mod.
func moduleRoot() (string, error) {
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("find the module: %w", err)
	}
	mod := strings.TrimSpace(string(out))
	if filepath.Base(mod) != "go.mod" {
		return "", errors.New("not within the module")
	}
	return filepath.Dir(mod), nil
}

func newBench(root string, suites []string) (*bench, error) {
	dir, err := os.MkdirTemp("", "mutants")
	return &bench{root: root, suites: suites, dir: dir, rapid: map[string]bool{}}, err
}

func (b *bench) close() { os.RemoveAll(b.dir) }

// whole checks that the tests pass without a mutation; otherwise every mutant
// would count as killed.
func (b *bench) whole(ctx context.Context, guards []Guard) error {
	used := slices.Clone(b.suites)
	for _, g := range guards {
		if !slices.Contains(used, g.Tests.Package) {
			used = append(used, g.Tests.Package)
		}
	}
	for _, pkg := range used {
		binary, err := b.build(ctx, b.dir, pkg, "")
		if err != nil {
			return err
		}
		help, _ := exec.CommandContext(ctx, binary, "-help").CombinedOutput()
		b.rapid[pkg] = bytes.Contains(help, []byte("-rapid.seed"))
		began := time.Now()
		failed, err := b.test(ctx, pkg, binary, ".")
		if err != nil {
			return err
		}
		if failed != "" {
			return fmt.Errorf("nothing is broken, and %s fails in %s", failed, pkg)
		}
		fmt.Printf("whole     %-44s %5.1fs\n", pkg, time.Since(began).Seconds())
	}
	return nil
}

// judge mutates a guard and runs first the tests that should fail, then all.
func (b *bench) judge(ctx context.Context, g Guard) (v verdict, err error) {
	began := time.Now()
	defer func() { v.took = time.Since(began) }()
	dir, err := os.MkdirTemp(b.dir, "guard")
	if err != nil {
		return v, err
	}
	defer os.RemoveAll(dir)
	overlay, err := b.overlay(dir, g.Mark)
	if err != nil {
		return v, err
	}
	binary, err := b.build(ctx, dir, g.Tests.Package, overlay)
	if err != nil {
		return v, err
	}
	failed, err := b.test(ctx, g.Tests.Package, binary, "^("+g.Tests.Run+")$")
	if err != nil || failed != "" {
		return verdict{caught: failed != "", by: name(g.Tests.Package, failed), expected: true}, err
	}
	for _, pkg := range b.suites {
		if binary, err = b.build(ctx, dir, pkg, overlay); err != nil {
			return v, err
		}
		failed, err := b.test(ctx, pkg, binary, ".")
		if err != nil || failed != "" {
			return verdict{caught: failed != "", by: name(pkg, failed)}, err
		}
	}
	return v, nil
}

func name(pkg, test string) string { return pkg[strings.LastIndexByte(pkg, '/')+1:] + "." + test }

// overlay writes the mutated source, and the overlay file that makes the
// compiler use it.
func (b *bench) overlay(dir string, m Mark) (string, error) {
	broken, err := m.apply(b.root)
	if err != nil {
		return "", err
	}
	to := filepath.Join(dir, "broken.go")
	if err := os.WriteFile(to, broken, 0o600); err != nil {
		return "", err
	}
	raw, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(b.root, m.File): to}})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, raw, 0o600)
}

// build compiles a package's tests. A mutant that does not compile is an error,
// because it proves nothing.
func (b *bench) build(ctx context.Context, dir, pkg, overlay string) (string, error) {
	to := filepath.Join(dir, strings.ReplaceAll(pkg, "/", "-")+".test")
	args := []string{"test", "-c", "-o", to}
	if overlay != "" {
		args = append(args, "-overlay", overlay)
	}
	cmd := exec.CommandContext(ctx, "go", append(args, "./"+pkg)...)
	cmd.Dir = b.root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", pkg, err, out)
	}
	if _, err := os.Stat(to); err != nil {
		return "", fmt.Errorf("package %s has no tests", pkg)
	}
	return to, nil
}

// failure matches the first failed test in the output of tests; if one panicked
// or hung there is only the panic.
var failure = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)|^(panic: .*|fatal error: .*)$`)

// test runs tests and returns the failed one, "" if none failed.
func (b *bench) test(ctx context.Context, pkg, binary, run string) (string, error) {
	args := []string{"-test.run", run, "-test.failfast", "-test.timeout", limit.String(), "-test.paniconexit0"}
	if b.rapid[pkg] {
		args = append(args, "-rapid.seed=1", "-rapid.nofailfile", "-rapid.shrinktime=1ms")
	}
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Dir = filepath.Join(b.root, pkg)
	out, err := cmd.CombinedOutput()
	if err == nil {
		return "", nil
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() < 0 {
		return "", fmt.Errorf("run the tests of %s: %w", pkg, err)
	}
	found := failure.FindSubmatch(out)
	switch {
	case found == nil:
		return "", fmt.Errorf("the tests of %s failed, and none of them did:\n%s", pkg, out)
	case len(found[1]) > 0:
		return string(found[1]), nil
	}
	return string(found[2]), nil
}
