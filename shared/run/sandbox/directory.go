package sandbox

import (
	"bufio"
	"encoding/binary"
	"io"
)

// maxDirectory bounds a zip's directory in bytes: 50,000 files of 320 bytes
// each. archive/zip keeps it in memory several times over.
const maxDirectory = 16 << 20

// Sizes of a zip's records in bytes, without the parts of variable length.
const (
	directoryHeaderLen = 46
	directoryEndLen    = 22
	locator64Len       = 20
	directoryEnd64Len  = 56
)

// checkDirectory rejects a zip with too many files or too large a directory
// before archive/zip reads it. archive/zip reads headers as long as there are
// any, whatever the end record says. checkDirectory accepts data that is not a
// zip: archive/zip reports it.
func checkDirectory(r io.ReaderAt, size int64) error {
	end, at, ok := directoryEnd(r, size)
	if !ok {
		return nil
	}
	files, length, offset := uint64(binary.LittleEndian.Uint16(end[10:])), uint64(binary.LittleEndian.Uint32(end[12:])), uint64(binary.LittleEndian.Uint32(end[16:]))
	if files == 0xffff || length == 0xffff || offset == 0xffffffff { // the condition of archive/zip
		if end64, at64, ok := directoryEnd64(r, at); ok {
			files, length, offset = binary.LittleEndian.Uint64(end64[32:]), binary.LittleEndian.Uint64(end64[40:]), binary.LittleEndian.Uint64(end64[48:])
			at = at64
		}
	}
	if err := checkCounts(files, length); err != nil {
		return err
	}
	// The directory ends at its end record, or begins at the offset given there.
	for _, begin := range []int64{at - int64(length), int64(offset)} {
		if begin < 0 || begin >= size {
			continue
		}
		if err := walkDirectory(io.NewSectionReader(r, begin, size-begin)); err != nil {
			return err
		}
	}
	return nil
}

func checkCounts(files, length uint64) error {
	switch {
	case files > MaxFiles:
		return refused("", "it holds %d files, the limit is %d", files, MaxFiles)
	case length > maxDirectory:
		return refused("", "its directory has %d bytes, the limit is %d", length, maxDirectory)
	}
	return nil
}

// walkDirectory counts the headers of a directory. It leaves it to archive/zip
// to report unreadable ones.
func walkDirectory(r io.Reader) error {
	in := bufio.NewReaderSize(r, 64<<10)
	var files, length uint64
	for {
		header, _ := in.Peek(directoryHeaderLen)
		if len(header) < directoryHeaderLen || binary.LittleEndian.Uint32(header) != 0x02014b50 {
			return nil
		}
		all := directoryHeaderLen + int(binary.LittleEndian.Uint16(header[28:])) +
			int(binary.LittleEndian.Uint16(header[30:])) + int(binary.LittleEndian.Uint16(header[32:]))
		files++
		length += uint64(all)
		if files > MaxFiles {
			return refused("", "it holds more than %d files", MaxFiles)
		}
		if err := checkCounts(files, length); err != nil {
			return err
		}
		if n, _ := in.Discard(all); n < all {
			return nil
		}
	}
}

// directoryEnd finds the record at the end of a zip, and its offset, where
// archive/zip finds it: before a comment of up to 64 KB.
func directoryEnd(r io.ReaderAt, size int64) (end []byte, at int64, ok bool) {
	for _, length := range []int64{1 << 10, 65 << 10} {
		tail := make([]byte, min(length, size))
		if n, _ := r.ReadAt(tail, size-int64(len(tail))); n < len(tail) {
			return nil, 0, false
		}
		for i := len(tail) - directoryEndLen; i >= 0; i-- {
			if binary.LittleEndian.Uint32(tail[i:]) != 0x06054b50 {
				continue
			}
			if comment := int(binary.LittleEndian.Uint16(tail[i+directoryEndLen-2:])); i+directoryEndLen+comment > len(tail) {
				break
			}
			return tail[i : i+directoryEndLen], size - int64(len(tail)) + int64(i), true
		}
	}
	return nil, 0, false
}

// directoryEnd64 finds the zip64 record that replaces the one at an offset.
func directoryEnd64(r io.ReaderAt, at int64) (end []byte, at64 int64, ok bool) {
	locator, end := make([]byte, locator64Len), make([]byte, directoryEnd64Len)
	if at < locator64Len {
		return nil, 0, false
	}
	if n, _ := r.ReadAt(locator, at-locator64Len); n < len(locator) || binary.LittleEndian.Uint32(locator) != 0x07064b50 {
		return nil, 0, false
	}
	at64 = int64(binary.LittleEndian.Uint64(locator[8:]))
	if at64 < 0 {
		return nil, 0, false
	}
	if n, _ := r.ReadAt(end, at64); n < len(end) || binary.LittleEndian.Uint32(end) != 0x06064b50 {
		return nil, 0, false
	}
	return end, at64, true
}
