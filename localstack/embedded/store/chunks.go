package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"math/bits"
)

// Logs and manifests of Pebble consist of chunks that do not cross the borders
// of blocks: checksum (4 bytes), length of the payload (2), kind (1), in logs
// the low half of the log's number (4), payload. The rest of a block is zero. A
// record is a full chunk, or a first chunk, any number of middle ones and a
// last one.
const (
	blockSize      = 32 << 10
	manifestHeader = 7
	logHeader      = 11
	sector         = 512 // the unit in which a disk writes
)

// The kinds of chunks in manifests. In logs four is added.
const (
	fullChunk = 1 + iota
	firstChunk
	middleChunk
	lastChunk
	logKinds = 4
)

// chunkReader reads the records of a log or a manifest up to the first that is
// not intact, and then searches for intact chunks behind it. Pebble takes the
// first chunk that is not intact for the end.
type chunkReader struct {
	r      io.Reader
	number *uint32 // of the log; nil for a manifest
	header int

	block [blockSize]byte
	n     int   // number of bytes in block
	base  int64 // offset of block in the file

	begun int64 // offset of the record being read
	bad   int64 // offset of the first chunk that is not intact, -1 if all are
	size  int64 // size of the file in bytes
	// Results of scan: the end of the intact records, whether the log was closed
	// properly there, the offset of the first intact chunk behind it (-1 if there
	// is none), and the number of records that begin there or later.
	end    int64
	closed bool
	behind int64
	others int
	// gap reports whether there is a sector of zeros, or the rest of one, between
	// end and behind, as a power cut leaves it.
	gap bool
}

// scan reads the whole file and calls record with the beginning of each intact
// record, at most want bytes. Errors: those of reading.
func (c *chunkReader) scan(want int, record func(head []byte)) error {
	c.header, c.bad, c.behind = manifestHeader, -1, -1
	if c.number != nil {
		c.header = logHeader
	}
	head := make([]byte, 0, want)
	inside, intact := false, true // within a record; whether everything was intact so far
	for {
		n, err := io.ReadFull(c.r, c.block[:])
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return err
		}
		c.n = n
		c.size += int64(n)
		at := 0
		for intact && at+c.header <= n {
			kind, payload, ok := c.chunk(at)
			begins := kind == fullChunk || kind == firstChunk
			if !ok || begins == inside {
				intact, c.closed = false, c.trailer(at) && !inside
				break
			}
			if begins {
				c.begun, head = c.offset(at), head[:0]
			}
			head = append(head, payload[:min(len(payload), want-len(head))]...)
			if inside = kind == firstChunk || kind == middleChunk; !inside {
				record(head)
			}
			at += c.header + len(payload)
		}
		if n < blockSize && intact && at < n {
			intact = false // truncated header
		}
		if !intact {
			if c.bad < 0 {
				c.bad = c.offset(at)
			}
			c.search(at)
		}
		if n < blockSize {
			break
		}
		c.base += blockSize
	}
	c.end = c.bad
	if intact {
		c.end = c.size
	}
	if inside {
		c.end = c.begun
	}
	return nil
}

func (c *chunkReader) offset(at int) int64 { return c.base + int64(at) }

// chunk reads the chunk at an offset in the block. ok is false if it is not
// intact.
func (c *chunkReader) chunk(at int) (kind byte, payload []byte, ok bool) {
	kind, payload, ok = c.headed(at)
	if !ok {
		return 0, nil, false
	}
	sum := crc32.Checksum(c.block[at+6:at+c.header+len(payload)], castagnoli)
	return kind, payload, binary.LittleEndian.Uint32(c.block[at:]) == bits.RotateLeft32(sum, 17)+0xa282ead8
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// headed reads the header of a chunk without checking its checksum.
func (c *chunkReader) headed(at int) (kind byte, payload []byte, ok bool) {
	if at+c.header > c.n {
		return 0, nil, false
	}
	kind = c.block[at+6]
	if c.number != nil {
		if binary.LittleEndian.Uint32(c.block[at+7:]) != *c.number {
			return 0, nil, false
		}
		kind -= logKinds
	}
	begin := at + c.header
	end := begin + int(binary.LittleEndian.Uint16(c.block[at+4:]))
	if kind < fullChunk || kind > lastChunk || end > c.n {
		return 0, nil, false
	}
	return kind, c.block[begin:end], true
}

// trailer reports whether the log was closed here: it has an empty chunk with
// the next number.
func (c *chunkReader) trailer(at int) bool {
	if c.number == nil || at+logHeader > c.n {
		return false
	}
	want := make([]byte, logHeader)
	want[6] = fullChunk + logKinds
	binary.LittleEndian.PutUint32(want[7:], *c.number+1)
	return bytes.Equal(c.block[at:at+logHeader], want)
}

// search searches the rest of the block for intact chunks, beginning at the
// first that is not. It skips the payload of chunks with an intact header,
// because users determine its content.
func (c *chunkReader) search(at int) {
	if _, payload, ok := c.headed(at); ok {
		c.gaps(at, at+c.header+len(payload))
		at += c.header + len(payload)
	}
	for at+c.header <= c.n {
		kind, payload, ok := c.chunk(at)
		if ok && (kind == fullChunk || kind == firstChunk || c.number != nil) || c.trailer(at) && !c.closed {
			if c.behind < 0 {
				c.behind = c.offset(at)
			}
			if ok && (kind == fullChunk || kind == firstChunk) {
				c.others++
			}
			at += c.header + len(payload)
			continue
		}
		next := at + 1
		if c.number != nil { // the rest of a reused file has chunks of another log
			next = c.candidate(at + 1)
		}
		c.gaps(at, next)
		at = next
	}
	c.gaps(at, c.n)
}

// candidate returns the first offset from at on where a chunk, or the trailer,
// of the log may begin, or where no further header fits.
func (c *chunkReader) candidate(at int) int {
	for at+c.header <= c.n {
		low := bytes.IndexByte(c.block[at+7:c.n], byte(*c.number))
		trail := bytes.IndexByte(c.block[at+7:c.n], byte(*c.number+1))
		if low < 0 || trail >= 0 && trail < low {
			low = trail
		}
		if low < 0 {
			break
		}
		at += low
		if _, _, ok := c.headed(at); ok || c.trailer(at) {
			return at
		}
		at++
	}
	return max(at, c.n-c.header+1)
}

// gaps looks for a sector that ends with zeros, among those that end between
// two offsets.
func (c *chunkReader) gaps(from, to int) {
	if c.behind >= 0 || c.gap {
		return
	}
	const enough = 8
	bad := int(max(c.bad-c.base, 0))
	for end := (from + sector) / sector * sector; end <= min(to, c.n); end += sector {
		if len(bytes.TrimLeft(c.block[max(bad, end-enough):end], "\x00")) == 0 {
			c.gap = true
		}
	}
}
