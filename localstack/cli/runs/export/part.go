package export

import (
	"archive/zip"
	"bufio"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"time"

	"millrace/localstack/atomicfile"
)

// A part ends with the first of these.
const (
	partRuns  = 1000
	partBytes = 64 << 20
)

// partial is the end of the name of a file that is not complete.
const partial = ".partial"

// part is the part of a day that is being written.
type part struct {
	dir, base     string
	runs          *stream
	logs, outputs *stream // nil if they are not exported
}

func newPart(dir string, day *Day, s Selection) (p *part, err error) {
	if err := os.MkdirAll(filepath.Join(dir, day.Date), 0o700); err != nil {
		return nil, err
	}
	p = &part{dir: dir, base: fmt.Sprintf("%s/%04d-", day.Date, day.next())}
	defer func() {
		if err != nil {
			p.discard()
		}
	}()
	if p.runs, err = create(dir, p.base+"runs.ndjson.gz"); err != nil {
		return nil, err
	}
	if s.Logs {
		if p.logs, err = create(dir, p.base+"logs.ndjson.gz"); err != nil {
			return nil, err
		}
	}
	if s.Outputs {
		if p.outputs, err = create(dir, p.base+"outputs.zip"); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func (p *part) streams() []*stream {
	var all []*stream
	for _, s := range []*stream{p.outputs, p.logs, p.runs} {
		if s != nil {
			all = append(all, s)
		}
	}
	return all
}

// full reports whether the part has to end.
func (p *part) full() bool {
	var n int64
	for _, s := range p.streams() {
		n += s.size
	}
	return p.runs.count >= partRuns || n >= partBytes
}

// close completes the files and gives them their names. Without large outputs there
// is no file of them.
func (p *part) close() (out Part, err error) {
	defer func() {
		if err != nil {
			p.discard()
		}
	}()
	for _, s := range p.streams() {
		if s == p.outputs && s.count == 0 {
			s.discard()
			continue
		}
		f, err := s.close()
		if err != nil {
			return out, err
		}
		switch s {
		case p.runs:
			out.Runs = *f
		case p.logs:
			out.Logs = f
		case p.outputs:
			out.Outputs = f
		}
	}
	return out, atomicfile.SyncDir(filepath.Join(p.dir, filepath.Dir(p.base)))
}

// discard removes what was not completed.
func (p *part) discard() {
	for _, s := range p.streams() {
		s.discard()
	}
}

// stream is a file of a part: lines that are compressed by gzip, or the entries of a
// zip.
type stream struct {
	dir, name string
	file      *os.File
	buffer    *bufio.Writer
	hash      hash.Hash
	size      int64 // bytes written, less what is buffered
	count     int   // lines or entries
	lines     *gzip.Writer
	entries   *zip.Writer
}

func create(dir, name string) (*stream, error) {
	file, err := os.OpenFile(filepath.Join(dir, filepath.FromSlash(name))+partial, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	s := &stream{dir: dir, name: name, file: file, hash: sha256.New()}
	s.buffer = bufio.NewWriterSize(s, 64<<10)
	if filepath.Ext(name) == ".zip" {
		s.entries = zip.NewWriter(s.buffer)
	} else {
		s.lines = gzip.NewWriter(s.buffer)
	}
	return s, nil
}

// Write writes to the file.
func (s *stream) Write(data []byte) (int, error) {
	n, err := s.file.Write(data)
	s.hash.Write(data[:n])
	s.size += int64(n)
	return n, err
}

func (s *stream) line(data []byte) error {
	_, err := s.lines.Write(append(data, '\n'))
	s.count++
	return err
}

func (s *stream) entry(name string, from io.Reader) error {
	w, err := s.entries.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Deflate, Modified: time.Time{}})
	if err == nil {
		_, err = io.Copy(w, from)
	}
	s.count++
	return err
}

// close completes the file and gives it its name.
func (s *stream) close() (*File, error) {
	var err error
	if s.entries != nil {
		err = s.entries.Close()
	} else {
		err = s.lines.Close()
	}
	if err == nil {
		err = s.buffer.Flush()
	}
	if err == nil {
		err = s.file.Sync()
	}
	if err = errors.Join(err, s.file.Close()); err != nil {
		return nil, err
	}
	path := filepath.Join(s.dir, filepath.FromSlash(s.name))
	if err := os.Rename(path+partial, path); err != nil {
		return nil, err
	}
	s.file = nil
	return &File{Name: s.name, Count: s.count, Bytes: s.size, SHA256: hex.EncodeToString(s.hash.Sum(nil))}, nil
}

// discard removes the file unless it is complete.
func (s *stream) discard() {
	if s.file != nil {
		_ = s.file.Close() // nobody will read it
		_ = os.Remove(s.file.Name())
		s.file = nil
	}
}
