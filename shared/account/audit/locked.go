package audit

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"millrace/shared/platform/blob"
	"millrace/shared/platform/table"
)

// A digest of a day can have a copy, with the entries of the day, in a store
// that neither replaces nor deletes objects. Whoever can write the table and
// sign digests can still not change what the copy says.

// Folder is the folder of the copies, in each workspace, of their store.
const Folder = "audit"

// maxDigestLine bounds the line of the digest in a copy, in bytes.
const maxDigestLine = 64 << 10

// LockedKey returns the key of the copy of a day.
func LockedKey(org string, day Day) string {
	return org + "/" + Folder + "/" + string(day) + ".jsonl.gz"
}

// Lock stores the copy of a digest and its day, unless there is one: gzipped
// lines, the digest first, then each entry as it is digested. It holds the day
// in memory, compressed.
func Lock(ctx context.Context, store blob.Store, t table.Table, d *Digest) error {
	var buf bytes.Buffer
	w := gzip.NewWriter(&buf)
	head, err := json.Marshal(d)
	if err != nil {
		return err
	}
	_, _ = w.Write(append(head, '\n')) // to memory
	for r, err := range Entries(ctx, t, d.OrgID, d.Day.Begin(), d.Day.End()) {
		if err != nil {
			return err
		}
		_, _ = w.Write(r.canonical())
	}
	if err := w.Close(); err != nil {
		return err
	}
	_, err = blob.PutBytes(ctx, store, LockedKey(d.OrgID, d.Day), buf.Bytes(), blob.PutOptions{ContentType: "application/gzip", IfAbsent: true}) //guard:audit/lock-once drop field IfAbsent
	if errors.Is(err, blob.ErrExists) {
		return nil
	}
	return err
}

// Locked returns the digest in the copy of a day. Errors: blob.ErrNotFound.
func Locked(ctx context.Context, store blob.Store, org string, day Day) (Digest, error) {
	body, _, err := store.Get(ctx, LockedKey(org, day), nil)
	if err != nil {
		return Digest{}, err
	}
	defer body.Close()
	r, err := gzip.NewReader(body)
	if err != nil {
		return Digest{}, fmt.Errorf("locked copy of %s: %w", day, err)
	}
	head, err := bufio.NewReaderSize(r, maxDigestLine).ReadSlice('\n')
	if err != nil {
		return Digest{}, fmt.Errorf("locked copy of %s: %w", day, err)
	}
	var d Digest
	if err := json.Unmarshal(head, &d); err != nil {
		return Digest{}, fmt.Errorf("locked copy of %s: %w", day, err)
	}
	return d, nil
}
