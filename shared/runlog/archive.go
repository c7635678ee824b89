package runlog

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"millrace/shared/blob"
	"millrace/shared/runstate"
	"millrace/shared/table"
)

// memberBytes is how much log one gzip member of an archive holds, before
// compression: a page reads the members it needs and no others.
const memberBytes = 1 << 20

// archive is the item of a run's archive: one gzip stream of NDJSON in members,
// with an index of what each holds. Small ones stand in the item.
type archive struct {
	table.Key
	Events   int    `table:"n"`
	Index    string `table:"ix,omitempty"` // JSON of []member
	IndexRef string `table:"ixr,omitempty"`
	Data     []byte `table:"d,omitempty"`
	Ref      string `table:"ref,omitempty"`
}

// member is one gzip member of an archive.
type member struct {
	Offset  int64   `json:"o"`
	Length  int64   `json:"l"`
	Batches []count `json:"b"`
}

// count says how many events of a batch a member holds, in order.
type count struct {
	ID     string `json:"i"`
	Events int    `json:"n"`
}

// Archive turns the run's batches into its archive. It is repeatable: if the
// archive stands it only clears batches that are left.
func (s *Store) Archive(ctx context.Context, org, run string) error {
	if err := s.Flush(ctx, org, run); err != nil {
		return err
	}
	defer s.release(org, run)
	_, err := s.Table.Get(ctx, runstate.ArchiveKey(org, run), table.Consistent)
	stands := err == nil
	if err != nil && !errors.Is(err, table.ErrNotFound) {
		return fmt.Errorf("runlog: archive: %w", err)
	}
	b := builder{}
	var spent []table.Write
	var objects []string
	all := table.Query{PK: runstate.LogPartition(org, run), Consistent: true}
	for item, err := range table.All(ctx, s.Table, all) {
		if err != nil {
			return fmt.Errorf("runlog: archive: %w", err)
		}
		var stored batch
		if err := table.Unmarshal(item, &stored); err != nil {
			return err
		}
		spent = append(spent, table.Delete{Key: stored.Key})
		if stored.Ref != "" {
			objects = append(objects, stored.Ref)
		}
		if stands {
			continue
		}
		data, err := s.data(ctx, stored)
		if err != nil {
			return fmt.Errorf("runlog: archive: %w", err)
		}
		if err := b.add(stored.SK, data, stored.Events); err != nil {
			return err
		}
	}
	if !stands {
		if err := s.store(ctx, org, run, &b); err != nil {
			return err
		}
	}
	if len(spent) > 0 {
		if err := s.Table.BatchWrite(ctx, spent); err != nil {
			return fmt.Errorf("runlog: clear batches: %w", err)
		}
	}
	if len(objects) > 0 {
		if err := s.Blob.Delete(ctx, objects...); err != nil {
			return fmt.Errorf("runlog: clear batches: %w", err)
		}
	}
	return nil
}

func (s *Store) store(ctx context.Context, org, run string, b *builder) error {
	if err := b.close(); err != nil {
		return err
	}
	index, err := json.Marshal(b.members)
	if err != nil {
		return err
	}
	item := archive{Key: runstate.ArchiveKey(org, run), Events: b.events}
	if b.out.Len()+len(index) <= InlineBytes {
		item.Data, item.Index = b.out.Bytes(), string(index)
	} else {
		item.Ref = runstate.Object(org, run, "log.ndjson.gz")
		item.IndexRef = runstate.Object(org, run, "log.index.json")
		opts := blob.PutOptions{ContentType: "application/gzip"}
		if _, err := blob.PutBytes(ctx, s.Blob, item.Ref, b.out.Bytes(), opts); err != nil {
			return fmt.Errorf("runlog: store archive: %w", err)
		}
		if _, err := blob.PutBytes(ctx, s.Blob, item.IndexRef, index, blob.PutOptions{ContentType: "application/json"}); err != nil {
			return fmt.Errorf("runlog: store archive: %w", err)
		}
	}
	err = s.Table.Put(ctx, table.Put{Item: item, If: table.IsNew()})
	if err != nil && !errors.Is(err, table.ErrConditionFailed) {
		return fmt.Errorf("runlog: store archive: %w", err)
	}
	return nil
}

// builder makes the gzip members of an archive.
type builder struct {
	out     bytes.Buffer
	members []member
	current *member
	gz      *gzip.Writer
	raw     int
	events  int
}

func (b *builder) add(id string, data []byte, events int) error {
	if b.current == nil {
		b.current = &member{Offset: int64(b.out.Len())}
		b.gz = gzip.NewWriter(&b.out)
		b.raw = 0
	}
	if _, err := b.gz.Write(data); err != nil {
		return err
	}
	b.current.Batches = append(b.current.Batches, count{id, events})
	b.raw += len(data)
	b.events += events
	if b.raw >= memberBytes {
		return b.close()
	}
	return nil
}

func (b *builder) close() error {
	if b.current == nil {
		return nil
	}
	if err := b.gz.Close(); err != nil {
		return err
	}
	b.current.Length = int64(b.out.Len()) - b.current.Offset
	b.members = append(b.members, *b.current)
	b.current = nil
	return nil
}

// index reads the archive's index.
func (s *Store) index(ctx context.Context, a archive) ([]member, error) {
	data := []byte(a.Index)
	if a.IndexRef != "" {
		var err error
		if data, _, err = blob.GetBytes(ctx, s.Blob, a.IndexRef, 64<<20); err != nil {
			return nil, fmt.Errorf("runlog: archive index: %w", err)
		}
	}
	var members []member
	if err := json.Unmarshal(data, &members); err != nil {
		return nil, fmt.Errorf("runlog: archive index: %w", err)
	}
	return members, nil
}

// lines returns a member's log.
func (s *Store) lines(ctx context.Context, a archive, m member) ([]byte, error) {
	var src io.Reader
	if a.Ref == "" {
		src = bytes.NewReader(a.Data[m.Offset : m.Offset+m.Length])
	} else {
		body, _, err := s.Blob.Get(ctx, a.Ref, &blob.Range{Offset: m.Offset, Length: m.Length})
		if err != nil {
			return nil, fmt.Errorf("runlog: archive: %w", err)
		}
		defer body.Close()
		src = body
	}
	gz, err := gzip.NewReader(src)
	if err != nil {
		return nil, fmt.Errorf("runlog: archive: %w", err)
	}
	return io.ReadAll(gz)
}
