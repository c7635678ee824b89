package runlog

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/oklog/ulid/v2"

	"millrace/shared/platform/blob"
)

// Limits of a gzip member of an archive. A page reads only the members it
// needs.
const (
	memberBytes   = 256 << 10 // uncompressed; more only for a single larger batch
	memberBatches = 2000      // what fits a gzip header
)

// errDamaged means that an archive's content is not as expected.
var errDamaged = errors.New("runlog: the archive is damaged")

// span is the position of one gzip member in an archive, after the previous
// one.
type span struct {
	First  string `json:"f"` // id of its first batch
	Length int64  `json:"l"`
}

// count is the number of events of a batch in a member. The counts of a member
// are in an extra field of its gzip header, in the order of the batches; other
// readers ignore it.
type count struct {
	id     string
	events int
}

// builder builds the gzip members of an archive.
type builder struct {
	out   blob.Spool
	spans []span

	raw    bytes.Buffer // the current member
	counts []count
}

// Most runs write little. For these, clearing gzip's tables at the default
// level would be most of the work, and save only a twentieth of the size.
const littleBytes = 16 << 10

var gzips, quickGzips = gzipsOf(gzip.DefaultCompression), gzipsOf(gzip.BestSpeed)

func gzipsOf(level int) *sync.Pool {
	return &sync.Pool{New: func() any {
		gz, err := gzip.NewWriterLevel(nil, level)
		if err != nil {
			panic(err) // no such level
		}
		return gz
	}}
}

func (b *builder) add(id string, data []byte, events int) error {
	if len(b.counts) == memberBatches || b.raw.Len() > 0 && b.raw.Len()+len(data) > memberBytes {
		if err := b.close(); err != nil {
			return err
		}
	}
	b.raw.Write(data)
	b.counts = append(b.counts, count{id, events})
	return nil
}

// close completes the current member.
func (b *builder) close() error {
	if len(b.counts) == 0 {
		return nil
	}
	extra, err := extraField(b.counts)
	if err != nil {
		return err
	}
	from := b.out.Size()
	writers := gzips
	if b.raw.Len() <= littleBytes {
		writers = quickGzips
	}
	gz := writers.Get().(*gzip.Writer)
	defer writers.Put(gz)
	gz.Reset(&b.out)
	gz.Extra = extra
	if _, err := gz.Write(b.raw.Bytes()); err != nil {
		return err
	}
	if err := gz.Close(); err != nil {
		return err
	}
	b.spans = append(b.spans, span{First: b.counts[0].id, Length: b.out.Size() - from})
	b.raw.Reset()
	b.counts = b.counts[:0]
	return nil
}

// fieldID identifies the extra field, see RFC 1952.
const fieldID = "mr"

func extraField(counts []count) ([]byte, error) {
	field := append([]byte(fieldID), 0, 0)
	for _, c := range counts {
		id, err := ulid.ParseStrict(c.id)
		if err != nil {
			return nil, fmt.Errorf("batch %q: %w", c.id, err)
		}
		field = append(field, id[:]...)
		field = binary.AppendUvarint(field, uint64(c.events))
	}
	binary.LittleEndian.PutUint16(field[2:], uint16(len(field)-4))
	return field, nil
}

func parseField(field []byte) ([]count, error) {
	if len(field) < 4 || string(field[:2]) != fieldID || int(binary.LittleEndian.Uint16(field[2:])) != len(field)-4 {
		return nil, errDamaged
	}
	var counts []count
	for field = field[4:]; len(field) > 0; {
		var id ulid.ULID
		n := copy(id[:], field)
		events, used := binary.Uvarint(field[n:])
		if n < len(id) || used <= 0 || events > 1<<31 {
			return nil, errDamaged
		}
		counts = append(counts, count{id.String(), int(events)})
		field = field[n+used:]
	}
	return counts, nil
}

// index reads the archive's index.
func (s *Store) index(ctx context.Context, a archive) ([]span, error) {
	data := []byte(a.Index)
	if a.IndexRef != "" {
		var err error
		if data, _, err = blob.GetBytes(ctx, s.Blob, a.IndexRef, 64<<20); err != nil {
			return nil, fmt.Errorf("runlog: archive index: %w", err)
		}
	}
	var spans []span
	if err := json.Unmarshal(data, &spans); err != nil {
		return nil, fmt.Errorf("%w: index: %w", errDamaged, err)
	}
	return spans, nil
}

// open opens a member and reads its header. The caller closes the body.
func (s *Store) open(ctx context.Context, a archive, offset, length int64) (*gzip.Reader, io.Closer, error) {
	body, err := s.raw(ctx, a, offset, length)
	if err != nil {
		return nil, nil, err
	}
	gz, err := gzip.NewReader(body)
	if err != nil {
		_ = body.Close()
		return nil, nil, fmt.Errorf("%w: %w", errDamaged, err)
	}
	gz.Multistream(false)
	return gz, body, nil
}

// member reads a member's log and its counts.
func (s *Store) member(ctx context.Context, a archive, offset, length int64) ([]byte, []count, error) {
	gz, body, err := s.open(ctx, a, offset, length)
	if err != nil {
		return nil, nil, err
	}
	defer body.Close()
	counts, err := parseField(gz.Extra)
	if err != nil {
		return nil, nil, err
	}
	data, err := io.ReadAll(gz)
	if err != nil {
		return nil, nil, fmt.Errorf("runlog: archive: %w", err)
	}
	return data, counts, nil
}
