package objectstore

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/versity/versitygw/backend"
	"github.com/versity/versitygw/backend/posix"
)

// sourceSize returns the size of the object to copy, 0 if it does not exist.
func (b *objects) sourceSize(source *string) int64 {
	bucket, key, _, err := backend.ParseCopySource(aws.ToString(source))
	if err != nil || !filepath.IsLocal(filepath.Join(bucket, key)) {
		return 0
	}
	info, err := os.Stat(b.path(bucket, key))
	if err != nil || info.IsDir() {
		return 0
	}
	return info.Size()
}

// uploadSize returns the total size of an upload's parts.
func (b *objects) uploadSize(bucket, key, id string) (size int64) {
	if !filepath.IsLocal(id) {
		return 0
	}
	parts, err := os.ReadDir(b.path(bucket, uploadKey(key, id)))
	if err != nil {
		return 0
	}
	for _, part := range parts {
		if info, err := part.Info(); err == nil && info.Mode().IsRegular() {
			size += info.Size()
		}
	}
	return size
}

// path returns the file of an object.
func (b *objects) path(bucket, key string) string { return filepath.Join(b.buckets, bucket, key) }

// uploadsKey returns where the backend stores the uploads of a key, relative to
// its bucket.
func uploadsKey(key string) string {
	return filepath.Join(posix.MetaTmpMultipartDir, fmt.Sprintf("%x", sha256.Sum256([]byte(key))))
}

func uploadKey(key, id string) string { return filepath.Join(uploadsKey(key), id) }

func partKey(key, id string, part int32) string {
	return filepath.Join(uploadKey(key, id), fmt.Sprint(part))
}
