package audit

import (
	"bufio"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"millrace/shared/platform/blob"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/table"
)

// A digested day is exported: the lines that were digested, gzipped, as an object
// of the workspace. The SHA-256 of its uncompressed content is that of the signed
// digest, so that the entries can leave the table and the day can still be
// verified. A line is a JSON array of texts: the entry's partition and id, the
// keys of its four lists, workspace, action, resource type and id, actor, API
// key, address, request id, and the JSON of before, after and metadata.

// ExportFolder is the folder of a workspace's exported days in the object store.
const ExportFolder = "audit"

// ExportKey returns the key of the object with a workspace's exported day.
func ExportKey(org string, day Day) string {
	return org + "/" + ExportFolder + "/" + string(day) + ".ndjson.gz"
}

// maxLine is more than the length of an exported line: an entry is an item of the
// table.
const maxLine = 4 << 20

// write writes the lines of a day's stored entries, and returns their number and
// SHA-256.
func write(ctx context.Context, t table.Table, org string, day Day, to io.Writer) (entries int, sum string, err error) {
	digest := sha256.New()
	for r, err := range Entries(ctx, t, org, day.Begin(), day.End()) {
		if err != nil {
			return entries, "", err
		}
		data := r.canonical()
		_, _ = digest.Write(data) // never fails
		if _, err := to.Write(data); err != nil {
			return entries, "", err
		}
		entries++
	}
	return entries, hex.EncodeToString(digest.Sum(nil)), nil
}

// Export stores the stored entries of a day, unless the day is exported, and
// returns the digest of what is stored in the table.
func Export(ctx context.Context, t table.Table, b blob.Store, org string, day Day, now clock.Millis) (Digest, error) {
	d := Digest{Key: DigestKey(org, day), OrgID: org, Day: day, MadeAt: now, Export: ExportKey(org, day)}
	var spool blob.Spool
	defer func() { _ = spool.Close() }()
	zip := gzip.NewWriter(&spool)
	var err error
	if d.Entries, d.SHA256, err = write(ctx, t, org, day, zip); err != nil {
		return d, fmt.Errorf("export audit entries: %w", err)
	}
	if err := zip.Close(); err != nil {
		return d, fmt.Errorf("export audit entries: %w", err)
	}
	body, err := spool.Reader()
	if err != nil {
		return d, fmt.Errorf("export audit entries: %w", err)
	}
	// What was exported is never replaced; verifying compares it with the digest.
	_, err = b.Put(ctx, d.Export, body, spool.Size(), blob.PutOptions{ContentType: "application/gzip", IfAbsent: true})
	if err != nil && !errors.Is(err, blob.ErrExists) {
		return d, fmt.Errorf("export audit entries: %w", err)
	}
	return d, nil
}

// Exported reads an exported day and calls each, if it is not nil, with the
// SHA-256 of each line. It returns what does not fit the digest, "" if all does.
// Errors: those of the object store but blob.ErrNotFound.
func (d *Digest) Exported(ctx context.Context, b blob.Store, each func(line [sha256.Size]byte)) (fault string, err error) {
	const broken = "the export of the day was changed or removed since it was digested"
	body, _, err := b.Get(ctx, ExportKey(d.OrgID, d.Day), nil)
	if errors.Is(err, blob.ErrNotFound) || errors.Is(err, blob.ErrDamaged) {
		return broken, nil
	}
	if err != nil {
		return "", fmt.Errorf("read the export of %s: %w", d.Day, err)
	}
	defer func() { _ = body.Close() }()
	packed, err := gzip.NewReader(body)
	if err != nil {
		return broken, ctx.Err()
	}
	lines, sum, entries := bufio.NewScanner(packed), sha256.New(), 0
	lines.Buffer(nil, maxLine)
	lines.Split(wholeLines)
	for lines.Scan() {
		_, _ = sum.Write(lines.Bytes())
		if entries++; each != nil {
			each(sha256.Sum256(lines.Bytes()))
		}
	}
	if lines.Err() != nil || entries != d.Entries || hex.EncodeToString(sum.Sum(nil)) != d.SHA256 {
		return broken, ctx.Err()
	}
	return "", nil
}

// wholeLines splits into lines with their line feeds.
func wholeLines(data []byte, end bool) (int, []byte, error) {
	for i, c := range data {
		if c == '\n' {
			return i + 1, data[:i+1], nil
		}
	}
	if end && len(data) > 0 {
		return len(data), data, nil
	}
	return 0, nil, nil
}

// Line returns the SHA-256 of the entry's line in an export.
func (r *Record) Line() [sha256.Size]byte { return sha256.Sum256(r.canonical()) }
