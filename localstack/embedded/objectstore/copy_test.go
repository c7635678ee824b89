package objectstore_test

import (
	"context"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	aws3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/embedded/objectstore"
	"millrace/shared/platform/blob"
)

func TestCopyTo(t *testing.T) {
	for _, metadata := range []string{"attributes", "sidecar"} {
		t.Run(metadata, func(t *testing.T) {
			dir, backup := t.TempDir(), t.TempDir()
			if metadata == "sidecar" {
				require.NoError(t, os.MkdirAll(filepath.Join(dir, "objects", "sidecar"), 0o700))
			}
			f := start(t, config(dir))
			ctx := t.Context()
			put, err := f.s3().PutObject(ctx, &aws3.PutObjectInput{
				Bucket: aws.String(bucket), Key: aws.String("org/a/b"), Body: strings.NewReader("content"),
				ContentType: aws.String("text/plain"), Metadata: map[string]string{"colour": "blue"},
			})
			require.NoError(t, err)
			before, err := f.store.Head(ctx, "org/a/b")
			require.NoError(t, err)
			_, err = blob.PutBytes(ctx, f.store, "org/empty", nil, blob.PutOptions{})
			require.NoError(t, err)
			upload, err := f.store.CreateMultipart(ctx, "org/parts", "image/png")
			require.NoError(t, err)
			part := f.sendPart(t, "org/parts", upload, "part one")
			loose := filepath.Join(dir, "objects", "buckets", bucket, "org", "empty")
			require.NoError(t, os.Chmod(loose, 0o644))
			old := time.Now().Add(-48 * time.Hour)
			require.NoError(t, os.Chtimes(loose, old, old))

			// Objects are stored and deleted while the copy is made.
			busy, stop := context.WithCancel(ctx)
			done := begin(func() error {
				for i := 0; busy.Err() == nil && i < 200; i++ {
					key := fmt.Sprintf("org/busy/%d/a", i)
					if _, err := blob.PutBytes(ctx, f.store, key, []byte(key), blob.PutOptions{}); err != nil {
						return err
					}
				}
				return nil
			})
			resume := f.server.PauseDeletes()
			err = objectstore.CopyTo(ctx, filepath.Join(dir, "objects"), filepath.Join(backup, "objects"))
			resume()
			require.NoError(t, err)
			stop()
			require.NoError(t, <-done)
			require.NoError(t, f.store.Delete(ctx, "org/a/b", "org/empty"))
			require.NoError(t, f.store.AbortMultipart(ctx, "org/parts", upload))
			require.NoError(t, f.server.Close())

			f = start(t, config(backup))
			got, err := f.s3().HeadObject(ctx, &aws3.HeadObjectInput{Bucket: aws.String(bucket), Key: aws.String("org/a/b")})
			require.NoError(t, err)
			assert.Equal(t, map[string]string{"colour": "blue"}, got.Metadata)
			data, obj, err := blob.GetBytes(ctx, f.store, "org/a/b", 100)
			require.NoError(t, err)
			assert.Equal(t, "content", string(data))
			assert.Equal(t, aws.ToString(put.ETag), `"`+obj.ETag+`"`)
			assert.Equal(t, before, obj)
			obj, err = f.store.Head(ctx, "org/empty")
			require.NoError(t, err)
			assert.WithinDuration(t, old, obj.Modified, time.Second)
			obj, err = f.store.CompleteMultipart(ctx, "org/parts", upload, []blob.Part{part})
			require.NoError(t, err)
			assert.EqualValues(t, 8, obj.Size)
			assert.Equal(t, "image/png", obj.ContentType)
			objects, _, err := f.store.List(ctx, "org/busy/", "", 0)
			require.NoError(t, err)
			for _, o := range objects {
				data, obj, err := blob.GetBytes(ctx, f.store, o.Key, 100)
				require.NoError(t, err)
				assert.Equal(t, o.Key, string(data), "whole or not there")
				assert.NotEmpty(t, obj.ETag)
			}
			require.NoError(t, filepath.WalkDir(filepath.Join(backup, "objects", "buckets"), func(path string, d fs.DirEntry, err error) error {
				require.NoError(t, err)
				info, err := d.Info()
				require.NoError(t, err)
				want := fs.FileMode(0o600)
				if d.IsDir() {
					want = 0o700
				}
				assert.Equal(t, want, info.Mode().Perm(), path)
				return nil
			}))
		})
	}
}

func TestCopyToRejectsLinks(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, from string){
		"link to a file": func(t *testing.T, from string) {
			require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(from, "b")))
		},
		"link to a directory": func(t *testing.T, from string) { require.NoError(t, os.Symlink("/etc", filepath.Join(from, "b"))) },
		"link to nothing":     func(t *testing.T, from string) { require.NoError(t, os.Symlink("nothing", filepath.Join(from, "b"))) },
		"socket": func(t *testing.T, from string) {
			t.Chdir(from)
			l, err := net.Listen("unix", "b")
			require.NoError(t, err)
			t.Cleanup(func() { _ = l.Close() })
		},
	} {
		t.Run(name, func(t *testing.T) {
			from, to := t.TempDir(), filepath.Join(t.TempDir(), "objects")
			require.NoError(t, os.WriteFile(filepath.Join(from, "a"), []byte("x"), 0o600))
			spoil(t, from)
			err := objectstore.CopyTo(t.Context(), from, to)
			require.ErrorIs(t, err, objectstore.ErrNotAFile)
			assert.ErrorContains(t, err, filepath.Join(from, "b"))
		})
	}
}

func TestCopyToArguments(t *testing.T) {
	t.Parallel()
	from := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(from, "a"), []byte("x"), 0o600))
	assert.ErrorIs(t, objectstore.CopyTo(t.Context(), from, t.TempDir()), fs.ErrExist)
	missing := filepath.Join(t.TempDir(), "objects")
	assert.ErrorIs(t, objectstore.CopyTo(t.Context(), missing, filepath.Join(t.TempDir(), "objects")), fs.ErrNotExist)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	assert.ErrorIs(t, objectstore.CopyTo(ended, from, filepath.Join(t.TempDir(), "objects")), context.Canceled)
	assert.ErrorIs(t, objectstore.CopyTo(t.Context(), filepath.Join(from, "a"), missing), objectstore.ErrNotAFile)
}

// s3 returns the SDK's client, for operations that the port lacks.
func (f *fixture) s3() *aws3.Client {
	return aws3.New(aws3.Options{
		Region: objectstore.Region, BaseEndpoint: aws.String(f.server.Endpoint()), UsePathStyle: true,
		Credentials: credentials.NewStaticCredentialsProvider(accessKey, secretKey, ""),
	})
}
