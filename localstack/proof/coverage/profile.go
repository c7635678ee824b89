package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// module is the prefix of file names in a profile.
const module = "millrace/"

// point is a position in a file, both from 1.
type point struct{ line, column int }

func (p point) before(o point) bool {
	return p.line < o.line || p.line == o.line && p.column < o.column
}

// block is a basic block of a profile.
type block struct {
	from, to point // to is after the last statement
	runs     int   // profiles in which it was run
}

// readProfiles reads the blocks of profiles by file, relative to the module.
func readProfiles(paths []string) (map[string][]block, error) {
	out := map[string][]block{}
	for _, path := range paths {
		profile, err := readProfile(path)
		if err != nil {
			return nil, err
		}
		for name, blocks := range profile {
			if out[name] == nil {
				out[name] = blocks
				continue
			}
			if len(out[name]) != len(blocks) {
				return nil, fmt.Errorf("read profile: %s: %s is of other code", path, name)
			}
			for i, b := range blocks {
				if b.from != out[name][i].from || b.to != out[name][i].to {
					return nil, fmt.Errorf("read profile: %s: %s is of other code", path, name)
				}
				out[name][i].runs += b.runs
			}
		}
	}
	return out, nil
}

// readProfile reads the blocks of one profile. A block that occurs several
// times was run if one of them was.
func readProfile(path string) (map[string][]block, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read profile: %w", err)
	}
	defer file.Close()
	index := map[string]map[[2]point]int{}
	out := map[string][]block{}
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		name, rest, found := strings.Cut(strings.TrimPrefix(lines.Text(), module), ":")
		if !found || name == "mode" {
			continue
		}
		var b block
		var statements, count int
		if _, err := fmt.Sscanf(rest, "%d.%d,%d.%d %d %d", &b.from.line, &b.from.column, &b.to.line, &b.to.column, &statements, &count); err != nil {
			return nil, fmt.Errorf("read profile: %q: %w", lines.Text(), err)
		}
		b.runs = min(count, 1)
		if index[name] == nil {
			index[name] = map[[2]point]int{}
		}
		at, known := index[name][[2]point{b.from, b.to}]
		if !known {
			index[name][[2]point{b.from, b.to}] = len(out[name])
			out[name] = append(out[name], b)
			continue
		}
		out[name][at].runs = max(out[name][at].runs, b.runs)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read profile: %w", err)
	}
	if len(out) == 0 {
		return nil, errors.New("the profile is empty")
	}
	return out, nil
}

// moduleRoot returns the folder of go.mod.
func moduleRoot() (string, error) {
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("find the module: %w", err)
	}
	return filepath.Dir(strings.TrimSpace(string(out))), nil
}
