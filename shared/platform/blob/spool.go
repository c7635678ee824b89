package blob

import (
	"bytes"
	"io"
	"os"
)

// spoolMemory is the number of bytes that a spool keeps in memory.
const spoolMemory = 1 << 20

// Spool buffers a body of unknown size, because [Store.Put] needs the size
// first: up to a megabyte in memory, a larger body in a temporary file. The
// zero Spool is empty. The caller closes it. It is not safe for concurrent use.
type Spool struct {
	memory bytes.Buffer
	file   *os.File
	size   int64
}

// Write appends to the spool. Errors are those of the temporary file.
func (s *Spool) Write(p []byte) (int, error) {
	if s.file == nil && s.memory.Len()+len(p) > spoolMemory {
		f, err := os.CreateTemp("", "millrace-spool-*")
		if err != nil {
			return 0, err
		}
		_ = os.Remove(f.Name()) // the open file stays usable; where it cannot be removed, Close does it
		s.file = f
		if _, err := s.memory.WriteTo(f); err != nil {
			return 0, err
		}
		s.memory = bytes.Buffer{}
	}
	to := io.Writer(&s.memory)
	if s.file != nil {
		to = s.file
	}
	n, err := to.Write(p)
	s.size += int64(n)
	return n, err
}

// Size returns the number of bytes written.
func (s *Spool) Size() int64 { return s.size }

// Reader returns a reader of the whole content, valid until the next Write or
// Reader.
func (s *Spool) Reader() (io.ReadSeeker, error) {
	if s.file == nil {
		return bytes.NewReader(s.memory.Bytes()), nil
	}
	_, err := s.file.Seek(0, io.SeekStart)
	return s.file, err
}

// Bytes returns the whole content, valid until the next Write.
func (s *Spool) Bytes() ([]byte, error) {
	if s.file == nil {
		return s.memory.Bytes(), nil
	}
	body, err := s.Reader()
	if err != nil {
		return nil, err
	}
	return io.ReadAll(body)
}

// Close releases memory and file.
func (s *Spool) Close() error {
	if s.file == nil {
		return nil
	}
	err := s.file.Close()
	_ = os.Remove(s.file.Name())
	return err
}
