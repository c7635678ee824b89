package export

import (
	"archive/zip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Verified is what a verification found.
type Verified struct {
	Days     int      `json:"days"`
	Complete int      `json:"complete_days"`
	Runs     int      `json:"runs"`
	Events   int      `json:"log_events"`
	Outputs  int      `json:"outputs"`
	Manifest string   `json:"manifest_sha256"`
	Faults   []string `json:"faults"` // a sentence each; empty: all is as it was written
}

// Verify reads every file of an export, and compares it with the manifest. It needs
// no server.
func Verify(dir string) (v Verified, err error) {
	m, err := readManifest(dir)
	if err != nil {
		return v, err
	}
	if v.Manifest, _, err = sum(filepath.Join(dir, manifestFile)); err != nil {
		return v, err
	}
	v.Faults = []string{}
	for _, d := range m.Days {
		v.Days++
		if d.Complete {
			v.Complete++
		}
		ids := map[string]struct{}{}
		for _, p := range d.Parts {
			v.Runs += p.Runs.Count
			v.Events += p.count(p.Logs)
			v.Outputs += p.count(p.Outputs)
			for _, f := range p.files() {
				if err := verifyFile(dir, f, f == p.Runs, ids); err != nil {
					v.Faults = append(v.Faults, f.Name+": "+err.Error())
				}
			}
		}
	}
	left, err := m.unlisted(dir)
	for _, name := range left {
		if !strings.HasSuffix(name, partial) { // of an export that goes on, or was interrupted
			v.Faults = append(v.Faults, name+": is not in the manifest; the next export removes it")
		}
	}
	return v, err
}

// verifyFile verifies a file, and that no run is recorded twice.
func verifyFile(dir string, f File, runs bool, ids map[string]struct{}) error {
	path := filepath.Join(dir, filepath.FromSlash(f.Name))
	hash, size, err := sum(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return errors.New("is missing")
	case err != nil:
		return err
	case size != f.Bytes:
		return fmt.Errorf("has %d bytes, not %d", size, f.Bytes)
	case hash != f.SHA256:
		return fmt.Errorf("was changed: its SHA-256 is %s, not %s", hash, f.SHA256)
	}
	n := 0
	if strings.HasSuffix(f.Name, ".zip") {
		z, err := zip.OpenReader(path)
		if err != nil {
			return err
		}
		n = len(z.File)
		if err := z.Close(); err != nil {
			return err
		}
	} else if err := lines(dir, f.Name, func(line []byte) error {
		n++
		var run listed
		if err := json.Unmarshal(line, &run); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		if _, twice := ids[run.ID]; runs && twice {
			return fmt.Errorf("line %d: the run %s is there twice", n, run.ID)
		}
		if runs {
			ids[run.ID] = struct{}{}
		}
		return nil
	}); err != nil {
		return err
	}
	if n != f.Count {
		return fmt.Errorf("has %d entries, not %d", n, f.Count)
	}
	return nil
}

func sum(path string) (hash string, size int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	h := sha256.New()
	size, err = io.Copy(h, f)
	return hex.EncodeToString(h.Sum(nil)), size, err
}

// unlisted returns the files in folders of days that are not in the manifest.
func (m *Manifest) unlisted(dir string) ([]string, error) {
	listed := map[string]bool{}
	for _, d := range m.Days {
		for _, p := range d.Parts {
			for _, f := range p.files() {
				listed[f.Name] = true
			}
		}
	}
	days, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, day := range days {
		if _, err := time.Parse(time.DateOnly, day.Name()); err != nil || !day.IsDir() {
			continue
		}
		files, err := os.ReadDir(filepath.Join(dir, day.Name()))
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			name := day.Name() + "/" + f.Name()
			if partName.MatchString(strings.TrimSuffix(f.Name(), partial)) && !listed[name] {
				out = append(out, name)
			}
		}
	}
	slices.Sort(out)
	return out, nil
}
