package runlog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"millrace/shared/platform/blob"
	"millrace/shared/platform/table"
	"millrace/shared/run/runstate"
)

// archive is the head of a run's log: the item with the number of partitions of
// the live log and, once it exists, the archive's description: one gzip stream
// of NDJSON in members, with an index of their positions. A small archive is in
// the item itself. An archive only grows; each replacement has a new version.
type archive struct {
	table.Key
	Shards   int      `table:"sh,omitempty"`  // partitions in use; 0: one
	Version  string   `table:"v,omitempty"`   // unique
	Events   int      `table:"n"`             // stored even if it is 0
	Index    string   `table:"ix,omitempty"`  // JSON of []span
	IndexRef string   `table:"ixr,omitempty"` // the object of a large one
	Data     []byte   `table:"d,omitempty"`
	Ref      string   `table:"ref,omitempty"` // the object of a large archive
	Replaced []string `table:"old,omitempty"` // objects of the previous archive
	Expires  int64    `table:"ttl,omitempty"` // Unix second; see [runstate.Slack]
}

// Attributes of a head used in conditions and updates.
const (
	headShards  = "sh"
	headVersion = "v"
	headEvents  = "n"
)

// stands reports whether the archive exists.
func (a archive) stands() bool { return a.Index != "" || a.IndexRef != "" }

// Archived reports whether the item with [runstate.ArchiveKey] belongs to a log
// with an archive. A nil item does not.
func Archived(head table.Item) bool {
	_, made := head[headEvents]
	return made
}

// unchanged holds if the head is still the one that was read.
func (a archive) unchanged() table.Cond {
	shards, version, made := table.Absent(headShards), table.Absent(headVersion), table.Absent(headEvents)
	if a.Shards > 0 {
		shards = table.Eq(headShards, a.Shards)
	}
	if a.Version != "" {
		version = table.Eq(headVersion, a.Version)
	}
	if a.stands() {
		made = table.Exists(headEvents)
	}
	return table.And(
		shards,  //guard:log/spread drop
		version, //guard:log/version drop
		made,
	)
}

// objects returns the archive's objects in the object store.
func (a archive) objects() []string {
	var all []string
	for _, ref := range []string{a.Ref, a.IndexRef} {
		if ref != "" {
			all = append(all, ref)
		}
	}
	return all
}

// head reads the head of a run's log; the zero archive with its key if there is
// none yet.
func (s *Store) head(ctx context.Context, id runID) (archive, error) {
	key := runstate.ArchiveKey(id.org, id.run)
	head, err := table.Load[archive](ctx, s.Table, key, table.Consistent)
	if errors.Is(err, table.ErrNotFound) {
		return archive{Key: key}, nil
	}
	if err != nil {
		return archive{}, fmt.Errorf("runlog: head of the log: %w", err)
	}
	s.learn(id, head)
	return head, nil
}

// spread makes the log use all its partitions from now on. A partition of the
// table accepts 1,000 write units a second, and the live log of a run begins
// with one: enough for 1,000 batches of up to 1 KB a second, but a wide run in
// the cloud has one or more for each message. The process that reaches the
// limit spreads the log; others learn it when they check for the archive after
// their next batch. A log that never reaches the limit costs one query for a
// page and one to archive it. Failures are harmless.
func (s *Store) spread(ctx context.Context, id runID) {
	if s.knows(id).shards >= runstate.LogShards {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, putTime)
	defer cancel()
	head, err := s.head(ctx, id)
	if err != nil || head.Shards >= runstate.LogShards {
		return
	}
	item, err := s.Table.Update(ctx, table.Update{
		Key: head.Key, Do: []table.Action{table.Set(headShards, runstate.LogShards)},
	})
	if err == nil && table.Unmarshal(item, &head) == nil {
		s.learn(id, head)
	}
}

// replace makes an archive the run's. If the head is no longer old it returns
// errChanged and removes what was written.
func (s *Store) replace(ctx context.Context, id runID, old archive, b *builder, events int) (archive, error) {
	index, err := json.Marshal(b.spans)
	if err != nil {
		return archive{}, fmt.Errorf("runlog: store archive: %w", err)
	}
	head := archive{Key: old.Key, Shards: old.Shards, Version: s.draw(), Events: events, Replaced: old.objects(), Expires: runstate.Expiry(s.Quota, id.org, s.Clock.Now())}
	if b.out.Size()+int64(len(index)) <= InlineBytes {
		if head.Data, err = b.out.Bytes(); err != nil {
			return head, fmt.Errorf("runlog: store archive: %w", err)
		}
		head.Index = string(index)
	} else if err := s.upload(ctx, id, &head, b, index); err != nil {
		return archive{}, fmt.Errorf("runlog: store archive: %w", err)
	}
	err = s.Table.Put(ctx, table.Put{Item: head, If: old.unchanged()})
	var conflict *table.ConditionError
	switch {
	case errors.As(err, &conflict) && conflict.Old[headVersion].Str() == head.Version: // our own write, whose response was lost
	case errors.Is(err, table.ErrConditionFailed):
		if err := s.remove(ctx, head.objects()); err != nil {
			return archive{}, err
		}
		return archive{}, errChanged
	case err != nil:
		return archive{}, fmt.Errorf("runlog: store archive: %w", err)
	}
	s.learn(id, head)
	return head, nil
}

// upload stores what does not fit into the head. Objects have unique names, so
// that concurrent archives do not overwrite each other.
func (s *Store) upload(ctx context.Context, id runID, head *archive, b *builder, index []byte) error {
	name := runstate.Object(id.org, id.run, "log-"+head.Version)
	body, err := b.out.Reader()
	if err != nil {
		return err
	}
	head.Ref = name + ".ndjson.gz"
	if _, err := s.Blob.Put(ctx, head.Ref, body, b.out.Size(), blob.PutOptions{ContentType: "application/gzip"}); err != nil {
		return err
	}
	if len(index) <= InlineBytes {
		head.Index = string(index)
		return nil
	}
	head.IndexRef = name + ".index.json"
	_, err = blob.PutBytes(ctx, s.Blob, head.IndexRef, index, blob.PutOptions{ContentType: "application/json"})
	return err
}

func (s *Store) remove(ctx context.Context, objects []string) error {
	if len(objects) == 0 {
		return nil
	}
	if err := s.Blob.Delete(ctx, objects...); err != nil {
		return fmt.Errorf("runlog: remove an archive: %w", err)
	}
	return nil
}
