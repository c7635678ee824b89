package blob

import (
	"bytes"
	"io"
	"os"
)

// spoolMemory is how much of a spool stays in memory.
const spoolMemory = 1 << 20

// Spool takes a body whose size is known only at its end, as [Store.Put] needs
// it before: the first megabyte in memory, a larger body in a temporary file. The
// zero Spool is empty. The caller closes it. It is for one goroutine at a time.
type Spool struct {
	memory bytes.Buffer
	file   *os.File
	size   int64
}

// Write adds to the spool. Errors are those of the temporary file.
func (s *Spool) Write(p []byte) (int, error) {
	if s.file == nil && s.memory.Len()+len(p) > spoolMemory {
		f, err := os.CreateTemp("", "millrace-spool-*")
		if err != nil {
			return 0, err
		}
		_ = os.Remove(f.Name()) // it lives while it is open; where that cannot be, until Close
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

// Size is how many bytes were written.
func (s *Spool) Size() int64 { return s.size }

// Reader reads all of it from the beginning, until the next Write or Reader.
func (s *Spool) Reader() (io.ReadSeeker, error) {
	if s.file == nil {
		return bytes.NewReader(s.memory.Bytes()), nil
	}
	_, err := s.file.Seek(0, io.SeekStart)
	return s.file, err
}

// Bytes returns all of it, to be read until the next Write.
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

// Close frees what it holds.
func (s *Spool) Close() error {
	if s.file == nil {
		return nil
	}
	err := s.file.Close()
	_ = os.Remove(s.file.Name())
	return err
}
