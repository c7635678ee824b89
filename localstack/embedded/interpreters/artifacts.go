package interpreters

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"

	"golang.org/x/sync/singleflight"

	"millrace/shared/run/sandbox"
)

// artifacts manages the extracted artifacts: root/<workspace>/<hash>.
type artifacts struct {
	root   string
	client *http.Client
	once   singleflight.Group
}

// directoryName converts a name to a safe path element.
func directoryName(name string) string {
	if plainName(name) {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return "~" + hex.EncodeToString(sum[:]) // no plain name has a tilde
}

// plainName reports whether a name consists of 1 to 100 letters, digits, - and
// _. It is called for each task.
func plainName(name string) bool {
	for i := range len(name) {
		switch c := name[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_', c == '-':
		default:
			return false
		}
	}
	return name != "" && len(name) <= 100
}

// get returns the directory of an extracted artifact and fetches it if
// necessary. A rejected zip is an *errs.Error with code Unprocessable.
func (a *artifacts) get(ctx context.Context, workspace string, artifact sandbox.Artifact) (string, error) {
	parent := filepath.Join(a.root, directoryName(workspace))
	dir := filepath.Join(parent, directoryName(artifact.Hash))
	for {
		if _, err := os.Stat(dir); err == nil {
			return dir, nil
		}
		done := a.once.DoChan(dir, func() (any, error) { return nil, a.fetch(ctx, parent, dir, artifact.URL) })
		select {
		case <-ctx.Done():
			return "", context.Cause(ctx)
		case r := <-done:
			// The caller that fetches for all may have been cancelled; that must not
			// fail the others.
			if r.Err != nil && !(errors.Is(r.Err, errAbandoned) && ctx.Err() == nil) {
				return "", r.Err
			}
		}
	}
}

var errAbandoned = errors.New("the download was abandoned")

func (a *artifacts) fetch(ctx context.Context, parent, dir string, url sandbox.Link) (err error) {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	if err := os.MkdirAll(parent, 0o711); err != nil {
		return err
	}
	temp, err := os.MkdirTemp(parent, ".fetch-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	zip, size, err := a.download(ctx, filepath.Join(temp, "zip"), url)
	if err != nil {
		if ctx.Err() != nil {
			return errors.Join(errAbandoned, context.Cause(ctx))
		}
		return err
	}
	defer zip.Close()
	content := filepath.Join(temp, "content")
	if err := os.Mkdir(content, 0o755); err != nil {
		return err
	}
	if err := sandbox.Extract(zip, size, content); err != nil {
		return err
	}
	if err := readable(content); err != nil {
		return err
	}
	return os.Rename(content, dir)
}

// readable makes a tree readable for other users, whatever the umask.
func readable(tree string) error {
	return filepath.WalkDir(tree, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		mode := fs.FileMode(0o644)
		if d.IsDir() || info.Mode()&0o100 != 0 {
			mode = 0o755
		}
		return os.Chmod(path, mode)
	})
}

func (a *artifacts) download(ctx context.Context, path string, sign sandbox.Link) (*os.File, int64, error) {
	url, err := sign(ctx)
	if err != nil {
		return nil, 0, fmt.Errorf("fetching the artifact: %w: %w", sandbox.ErrUnavailable, err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, 0, errors.New("the artifact's URL is malformed") // a presigned URL is a credential
	}
	resp, err := a.client.Do(req)
	if err != nil {
		var cause = err
		if inner := errors.Unwrap(err); inner != nil { // *url.Error shows the URL
			cause = inner
		}
		return nil, 0, fmt.Errorf("fetching the artifact: %w: %w", sandbox.ErrUnavailable, cause)
	}
	defer resp.Body.Close()
	if resp.StatusCode >= http.StatusInternalServerError {
		return nil, 0, fmt.Errorf("fetching the artifact: %w: status %d", sandbox.ErrUnavailable, resp.StatusCode)
	}
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound:
		return nil, 0, errors.New("fetching the artifact: it is gone from the object store")
	case http.StatusConflict:
		return nil, 0, errors.New("fetching the artifact: it is damaged in the object store")
	default:
		return nil, 0, fmt.Errorf("fetching the artifact: status %d", resp.StatusCode)
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, 0, err
	}
	size, err := io.Copy(file, io.LimitReader(resp.Body, sandbox.MaxExtractedBytes+1))
	if err == nil && size > sandbox.MaxExtractedBytes {
		err = errors.New("it is larger than 1 GB")
	}
	if err != nil {
		file.Close()
		return nil, 0, fmt.Errorf("fetching the artifact: %w", err)
	}
	return file, size, nil
}
