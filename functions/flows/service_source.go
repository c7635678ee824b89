package flows

import (
	"archive/zip"
	"compress/flate"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"millrace/shared/platform/blob"
	"millrace/shared/run/flowspec"
	"millrace/shared/run/sandbox"
)

// Limits of the files of an artifact that are copied to a draft: text files up
// to a size, until they are half of the largest draft, so that there is room to
// edit.
const (
	maxSourceFile = 256 << 10
	maxSource     = MaxDraftBytes / 2
	maxOmitted    = 100 // names of files left out
)

// sourceOf returns the text files of an artifact by name, and the names of its
// other files. Without an artifact there is no source.
func (s *service) sourceOf(ctx context.Context, key string) (source map[string]string, omitted []string, err error) {
	source = map[string]string{}
	if key == "" {
		return source, nil, nil
	}
	obj, err := s.store.Blob.Head(ctx, key)
	if errors.Is(err, blob.ErrNotFound) {
		return source, nil, nil // the artifact was deleted manually; the spec can still be edited
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read artifact: %w", err)
	}
	r := blob.NewReaderAt(ctx, s.store.Blob, key, obj.Size)
	if err := sandbox.Check(r, obj.Size); err != nil {
		return nil, nil, err
	}
	archive, err := zip.NewReader(r, obj.Size)
	if err != nil {
		return nil, nil, fmt.Errorf("read artifact: %w", err)
	}
	left := maxSource
	for _, f := range archive.File {
		if f.FileInfo().IsDir() {
			continue
		}
		text, err := textOf(f, min(left, maxSourceFile))
		if err != nil {
			return nil, nil, err
		}
		name := strings.TrimPrefix(f.Name, "./")
		if text == nil || len(source) == maxDraftFiles {
			if len(omitted) < maxOmitted {
				omitted = append(omitted, name)
			}
			continue
		}
		source[name] = string(text)
		left -= len(text)
	}
	return source, omitted, nil
}

// damaged distinguishes an error of the zip from one of the store.
func damaged(err error) bool {
	_, corrupt := errors.AsType[flate.CorruptInputError](err)
	return corrupt || errors.Is(err, zip.ErrChecksum) || errors.Is(err, zip.ErrFormat) || errors.Is(err, io.ErrUnexpectedEOF)
}

// textOf returns the text of a file of up to limit bytes, nil if it is larger,
// damaged or not text.
func textOf(f *zip.File, limit int) ([]byte, error) {
	if f.UncompressedSize64 > uint64(limit) {
		return nil, nil
	}
	r, err := f.Open()
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", f.Name, err)
	}
	defer r.Close()
	text, err := io.ReadAll(io.LimitReader(r, int64(limit)+1))
	switch {
	case damaged(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", f.Name, err)
	case len(text) > limit || !utf8.Valid(text) || strings.ContainsRune(string(text), 0):
		return nil, nil
	case text == nil:
		text = []byte{}
	}
	return text, nil
}

// summaries returns a flow's tasks in the order of the spec.
func summaries(flow *flowspec.Flow) []TaskSummary {
	out := make([]TaskSummary, len(flow.Tasks))
	for i, t := range flow.Tasks {
		out[i] = TaskSummary{
			Name: t.Name, Type: t.Type, DependsOn: append([]string{}, t.DependsOn...),
			TriggerRule: t.TriggerRule, Mapped: t.MapOver != "",
		}
	}
	return out
}
