package export

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"millrace/localstack/atomicfile"
)

// Files of the directory.
const (
	manifestFile = "manifest.json"
	lockFile     = ".lock"
	format       = 1
)

// Manifest lists what the directory holds. A file that it does not list is not part
// of the export.
type Manifest struct {
	Format    int       `json:"format"`
	Server    string    `json:"server"` // of the first export
	Org       string    `json:"org_id"`
	Selection Selection `json:"selection"`
	Days      []*Day    `json:"days"` // in order
}

// Selection is which runs are exported, and what of them. It is the same for all
// exports to a directory.
type Selection struct {
	Flow        string   `json:"flow_name,omitempty"`
	Environment string   `json:"environment,omitempty"`
	Deployment  string   `json:"deployment,omitempty"`
	Statuses    []string `json:"statuses,omitempty"` // sorted; empty: all finished runs
	Logs        bool     `json:"logs"`
	Outputs     bool     `json:"outputs"` // those too large for the records
}

// Day is the runs that were created on a day, in UTC.
type Day struct {
	Date     string `json:"date"`
	Complete bool   `json:"complete"` // it is over, and all its runs are exported
	Parts    []Part `json:"parts"`
}

// Part is what one export added to a day.
type Part struct {
	Runs    File  `json:"runs"`              // NDJSON: the detail of each run
	Logs    *File `json:"logs,omitempty"`    // NDJSON: events
	Outputs *File `json:"outputs,omitempty"` // a zip: <run_id>/tasks/<task>[<index>].json, <run_id>/result.json
}

// File is a complete file.
type File struct {
	Name   string `json:"file"`  // relative to the directory, with slashes
	Count  int    `json:"count"` // runs, events or outputs
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// MismatchError means that the directory is of another export.
type MismatchError struct{ Reason string }

// Error implements error.
func (e *MismatchError) Error() string { return e.Reason }

func (p Part) files() []File {
	all := []File{p.Runs}
	for _, f := range []*File{p.Logs, p.Outputs} {
		if f != nil {
			all = append(all, *f)
		}
	}
	return all
}

func (Part) count(f *File) int {
	if f == nil {
		return 0
	}
	return f.Count
}

func (d *Day) start() time.Time {
	at, _ := time.Parse(time.DateOnly, d.Date) // checked when the manifest was read
	return at
}

func (d *Day) end() time.Time { return d.start().AddDate(0, 0, 1) }

func (d *Day) runs() (n int) {
	for _, p := range d.Parts {
		n += p.Runs.Count
	}
	return n
}

var partName = regexp.MustCompile(`^(\d{4,})-(runs\.ndjson\.gz|logs\.ndjson\.gz|outputs\.zip)$`)

// next is the number of the day's next part.
func (d *Day) next() (n int) {
	for _, p := range d.Parts {
		var number int
		_, _ = fmt.Sscanf(filepath.Base(p.Runs.Name), "%d", &number) // 0 if somebody edited it
		n = max(n, number)
	}
	return n + 1
}

// each calls yield for the id of each exported run of the day.
func (d *Day) each(dir string, yield func(id string)) error {
	for _, p := range d.Parts {
		err := lines(dir, p.Runs.Name, func(line []byte) error {
			var run listed
			err := json.Unmarshal(line, &run)
			yield(run.ID)
			return err
		})
		if err != nil {
			return fmt.Errorf("%s: %w (millrace runs export %s --verify checks all files)", p.Runs.Name, err, dir)
		}
	}
	return nil
}

// lines reads a file of lines.
func lines(dir, name string, yield func([]byte) error) error {
	f, err := os.Open(filepath.Join(dir, filepath.FromSlash(name)))
	if err != nil {
		return err
	}
	defer f.Close()
	unpacked, err := gzip.NewReader(bufio.NewReaderSize(f, 64<<10))
	if err != nil {
		return err
	}
	r := bufio.NewReaderSize(unpacked, 64<<10)
	for {
		line, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) && len(line) == 0 {
			return nil
		}
		if err != nil {
			return err
		}
		if err := yield(line); err != nil {
			return err
		}
	}
}

// readManifest reads the manifest. Errors: fs.ErrNotExist.
func readManifest(dir string) (*Manifest, error) {
	path := filepath.Join(dir, manifestFile)
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	m := &Manifest{}
	if err := json.Unmarshal(data, m); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if m.Format != format {
		return nil, fmt.Errorf("%s has the format %d, this program knows %d", path, m.Format, format)
	}
	for _, d := range m.Days {
		if _, err := time.Parse(time.DateOnly, d.Date); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		for _, p := range d.Parts {
			for _, f := range p.files() {
				if !fs.ValidPath(f.Name) || !filepath.IsLocal(filepath.FromSlash(f.Name)) {
					return nil, fmt.Errorf("%s: %q is no file in the directory", path, f.Name)
				}
			}
		}
	}
	return m, nil
}

// openManifest returns the manifest of the directory, or a new one, and removes what
// an interrupted export left. Errors: *MismatchError.
func openManifest(dir string, want Manifest) (*Manifest, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	// A killed export may have left its lock file, and a half-written manifest.
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool {
		if strings.HasPrefix(e.Name(), manifestFile+".") {
			err = errors.Join(err, os.Remove(filepath.Join(dir, e.Name())))
			return true
		}
		return e.Name() == lockFile
	})
	if err != nil {
		return nil, err
	}
	m, err := readManifest(dir)
	if errors.Is(err, fs.ErrNotExist) {
		if len(entries) > 0 {
			return nil, &MismatchError{fmt.Sprintf("%s is neither empty nor an export: name a directory of its own", dir)}
		}
		want.Days = []*Day{}
		return &want, want.save(dir)
	}
	if err != nil {
		return nil, err
	}
	if m.Org != want.Org {
		return nil, &MismatchError{fmt.Sprintf("%s is an export of the workspace %s, not of %s", dir, m.Org, want.Org)}
	}
	if !reflect.DeepEqual(m.Selection, want.Selection) {
		return nil, &MismatchError{fmt.Sprintf("%s was begun with other flags (%s): repeat them, or name another directory", dir, m.Selection)}
	}
	left, err := m.unlisted(dir)
	for _, name := range left {
		if err := os.Remove(filepath.Join(dir, filepath.FromSlash(name))); err != nil {
			return nil, err
		}
	}
	return m, err
}

// String shows a selection as the flags that make it.
func (s Selection) String() string {
	text := ""
	add := func(flag, value string) {
		if value != "" {
			text += " " + flag + " " + value
		}
	}
	add("--flow", s.Flow)
	add("--env", s.Environment)
	add("--deployment", s.Deployment)
	for _, status := range s.Statuses {
		add("--status", status)
	}
	if !s.Logs {
		text += " --no-logs"
	}
	if !s.Outputs {
		text += " --no-outputs"
	}
	if text == "" {
		return "none"
	}
	return text[1:]
}

// day returns a day, which it adds if it is new.
func (m *Manifest) day(date string) *Day {
	i, found := slices.BinarySearchFunc(m.Days, date, func(d *Day, date string) int { return strings.Compare(d.Date, date) })
	if !found {
		m.Days = slices.Insert(m.Days, i, &Day{Date: date, Parts: []Part{}})
	}
	return m.Days[i]
}

// save replaces the manifest at once.
func (m *Manifest) save(dir string) error {
	return atomicfile.WriteJSON(filepath.Join(dir, manifestFile), m)
}
