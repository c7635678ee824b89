package sandbox

import (
	"archive/zip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"unicode/utf8"

	"millrace/shared/platform/errs"
)

// Limits of an artifact.
const (
	MaxExtractedBytes = 1 << 30 // of all files together, extracted
	MaxRatio          = 100     // extracted bytes per byte of the zip
	MaxFiles          = 50_000
	maxNameBytes      = 1024
)

// freeBytes may be extracted whatever the ratio: tiny zips of repetitive source
// legitimately compress far better than 100 times.
const freeBytes = 1 << 20

// refused returns the 422 error of an artifact that breaks a rule.
func refused(name, format string, args ...any) error {
	return errs.Field(errs.Body("artifact"), name, "the artifact is refused: "+format, args...)
}

// Check validates an uploaded zip without extracting it. Absolute names, "..",
// links and other special files, duplicate names, encryption and an expansion
// over 1 GB or 100 times are a 422 *errs.Error. An error of r is returned as
// is.
func Check(r io.ReaderAt, size int64) error {
	_, err := Names(r, size)
	return err
}

// Names is like [Check] and returns the names of the zip's files: clean,
// relative and separated by slashes.
func Names(r io.ReaderAt, size int64) ([]string, error) {
	entries, err := open(r, size)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if !e.dir {
			names = append(names, e.name)
		}
	}
	return names, nil
}

// entry is a file or directory of a checked zip.
type entry struct {
	*zip.File
	name string // clean, slash separated, relative
	dir  bool
}

// readerAt records an error of the storage behind a zip, so that it is not
// mistaken for an error of the zip.
type readerAt struct {
	io.ReaderAt
	err error
}

// ReadAt implements io.ReaderAt.
func (r *readerAt) ReadAt(p []byte, off int64) (int, error) {
	n, err := r.ReaderAt.ReadAt(p, off)
	if err != nil && !errors.Is(err, io.EOF) {
		r.err = err
	}
	return n, err
}

func open(r io.ReaderAt, size int64) ([]entry, error) {
	source := &readerAt{ReaderAt: r}
	if err := checkDirectory(source, size); err != nil {
		return nil, err
	}
	if source.err != nil {
		return nil, fmt.Errorf("reading the artifact: %w", source.err)
	}
	archive, err := zip.NewReader(source, size)
	if source.err != nil {
		return nil, fmt.Errorf("reading the artifact: %w", source.err)
	}
	// Unsafe names are reported one by one below.
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) {
		return nil, refused("", "it is not a readable zip file")
	}
	if len(archive.File) > MaxFiles {
		return nil, refused("", "it holds %d files, the limit is %d", len(archive.File), MaxFiles)
	}
	entries := make([]entry, 0, len(archive.File))
	kinds := make(map[string]bool, len(archive.File)) // clean name: is it a directory
	var total uint64
	for _, f := range archive.File {
		e, err := check(f)
		if err != nil {
			return nil, err
		}
		if _, twice := kinds[e.name]; twice {
			return nil, refused(f.Name, "%q is in it twice", f.Name)
		}
		kinds[e.name] = e.dir
		if total += f.UncompressedSize64; f.UncompressedSize64 > MaxExtractedBytes || total > MaxExtractedBytes {
			return nil, refused(f.Name, "it expands to more than 1 GB")
		}
		entries = append(entries, e)
	}
	if total > limit(size) {
		return nil, refused("", "it expands more than %d times", MaxRatio)
	}
	for name := range kinds {
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			if isDir, there := kinds[dir]; there && !isDir {
				return nil, refused(dir, "%q is both a file and a directory", dir)
			}
		}
	}
	return entries, nil
}

// limit returns the number of bytes that a zip of a size may expand to.
func limit(size int64) uint64 {
	return min(MaxExtractedBytes, max(freeBytes, uint64(max(size, 0))*MaxRatio))
}

func check(f *zip.File) (entry, error) {
	name := f.Name
	switch {
	case name == "" || len(name) > maxNameBytes:
		return entry{}, refused(shorten(name), "a name in it is empty or longer than %d bytes", maxNameBytes)
	case !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return entry{}, refused(shorten(strings.ToValidUTF8(name, "?")), "the name %q is not plain text", shorten(name))
	case strings.HasPrefix(name, "/") || len(name) > 1 && name[1] == ':':
		return entry{}, refused(name, "%q is an absolute name", name)
	case strings.Contains(name, `\`):
		return entry{}, refused(name, "%q has a backslash in its name", name)
	}
	clean := path.Clean(name)
	if !fs.ValidPath(clean) || clean == "." || strings.Contains("/"+name+"/", "/../") {
		return entry{}, refused(name, "%q leads out of it", name)
	}
	mode := f.Mode()
	switch {
	case mode&fs.ModeSymlink != 0:
		return entry{}, refused(name, "%q is a symbolic link", name)
	case mode.Type()&^fs.ModeDir != 0:
		return entry{}, refused(name, "%q is neither a file nor a directory", name)
	case f.Flags&0x1 != 0:
		return entry{}, refused(name, "%q is encrypted", name)
	case f.Method != zip.Store && f.Method != zip.Deflate:
		return entry{}, refused(name, "%q is compressed by a method that is not supported (%d)", name, f.Method)
	}
	return entry{File: f, name: clean, dir: mode.IsDir()}, nil
}

func shorten(name string) string {
	if len(name) > 80 {
		return strings.ToValidUTF8(name[:80], "") + "…"
	}
	return name
}

// Extract checks a zip like [Check] and writes it below dir, which must exist.
// Sizes are enforced on the bytes actually written, whatever the zip's
// directory states; a wrong statement is a 422, other failures are errors of
// the disk. Files have mode 0644, or 0755 if executable. After an error dir may
// contain some of the files.
func Extract(r io.ReaderAt, size int64, dir string) error {
	entries, err := open(r, size)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("opening the artifact's directory: %w", err)
	}
	defer func() { _ = root.Close() }()
	left := int64(limit(size))
	for _, e := range entries {
		parent := e.name
		if !e.dir {
			parent = path.Dir(e.name)
		}
		if err := root.MkdirAll(parent, 0o755); err != nil {
			return fmt.Errorf("extracting the artifact: %w", err)
		}
		if e.dir {
			continue
		}
		n, err := write(root, e, left)
		if err != nil {
			return err
		}
		left -= n
	}
	return nil
}

func write(root *os.Root, e entry, left int64) (n int64, err error) {
	mode := fs.FileMode(0o644)
	if e.Mode()&0o111 != 0 {
		mode = 0o755
	}
	// Exclusive: existing files and links are neither followed nor overwritten.
	file, err := root.OpenFile(e.name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		if errors.Is(err, fs.ErrExist) { // two names that are the same to this file system
			return 0, refused(e.Name, "%q is in it twice", e.Name)
		}
		return 0, fmt.Errorf("extracting the artifact: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	content, err := e.Open()
	if err != nil {
		return 0, refused(e.Name, "%q cannot be read", e.Name)
	}
	defer content.Close()
	disk := &diskWriter{Writer: file}
	n, err = io.Copy(disk, io.LimitReader(content, left+1))
	switch {
	case disk.err != nil:
		return n, fmt.Errorf("extracting the artifact: %w", disk.err)
	case err != nil:
		return n, refused(e.Name, "%q is damaged", e.Name)
	case n > left:
		return n, refused(e.Name, "it expands to more than 1 GB or more than %d times", MaxRatio)
	}
	return n, nil
}

// diskWriter distinguishes a full disk from a damaged zip.
type diskWriter struct {
	io.Writer
	err error
}

// Write implements io.Writer.
func (w *diskWriter) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	w.err = err
	return n, err
}
