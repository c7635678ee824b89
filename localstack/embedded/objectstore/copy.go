package objectstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pkg/xattr"
	"github.com/versity/versitygw/backend/posix"
)

// ErrNotAFile means that a directory to copy contains something other than
// files and directories, such as a symbolic link. It is wrapped with the path.
var ErrNotAFile = errors.New("neither a file nor a directory")

// userAttributes is the prefix of the extended attributes that are copied.
// Others belong to the system.
const userAttributes = "user."

// CopyTo copies a store's directory, Dir/objects, with all metadata to a
// directory that does not exist. Copied files are synced and accessible only to
// their owner. The store may be in use: the copy may or may not contain objects
// stored meanwhile; deletions must be paused (PauseDeletes), so that it
// contains all that existed before. After an error the target is incomplete.
// Errors: ErrNotAFile, fs.ErrExist if to exists, ctx's.
func CopyTo(ctx context.Context, from, to string) error {
	if _, err := os.Lstat(to); err == nil {
		return fmt.Errorf("copy objects: %s: %w", to, fs.ErrExist)
	}
	info, err := os.Lstat(from)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s: %w", from, ErrNotAFile)
	}
	if err == nil {
		err = copyDir(ctx, from, to)
	}
	if err == nil {
		err = syncPath(filepath.Dir(to))
	}
	if err != nil {
		return fmt.Errorf("copy objects: %w", err)
	}
	return nil
}

// copyDir copies a directory. It copies the uploads of a bucket first, because
// one that is completed meanwhile is then found among the objects, and buckets
// before sidecars, because an object gets its sidecar before its name.
func copyDir(ctx context.Context, from, to string) error {
	entries, err := os.ReadDir(from)
	if err != nil {
		return gone(err)
	}
	if i := slices.IndexFunc(entries, func(e fs.DirEntry) bool { return e.Name() == posix.MetaTmpDir }); i > 0 {
		entries[0], entries[i] = entries[i], entries[0]
	}
	if err := os.Mkdir(to, 0o700); err != nil {
		return err
	}
	for _, entry := range entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		source, target := filepath.Join(from, entry.Name()), filepath.Join(to, entry.Name())
		switch mode := entry.Type(); {
		case mode.IsDir():
			err = copyDir(ctx, source, target)
		case mode.IsRegular():
			err = copyFile(ctx, source, target)
		default:
			err = fmt.Errorf("%s: %w", source, ErrNotAFile)
		}
		if err != nil {
			return err
		}
	}
	if err := copyAttributes(from, to); err != nil {
		return err
	}
	return syncPath(to)
}

// copyFile copies a file unless it no longer exists: since deletions are
// paused, it was a temporary one.
func copyFile(ctx context.Context, from, to string) error {
	in, err := openRegular(from)
	if err != nil {
		return gone(err)
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s: %w", from, ErrNotAFile)
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	for err == nil { // in pieces, to check ctx between them
		if _, err = io.CopyN(out, in, copyPiece); err == nil {
			err = ctx.Err()
		}
	}
	if errors.Is(err, io.EOF) {
		err = copyFileAttributes(in, out)
	}
	if err == nil {
		err = out.Chmod(0o600)
	}
	if err == nil { // the time when the object was stored
		err = os.Chtimes(to, info.ModTime(), info.ModTime())
	}
	if err == nil {
		err = syncFile(out)
	}
	return errors.Join(err, out.Close())
}

// copyPiece is the number of bytes copied at once.
const copyPiece = 64 << 20

// copyFileAttributes copies the attributes of open files, because their names
// may refer to other files by now.
func copyFileAttributes(from, to *os.File) error {
	names, err := xattr.FList(from)
	if err != nil {
		return unsupported(err)
	}
	for _, name := range names {
		if !strings.HasPrefix(name, userAttributes) {
			continue
		}
		value, err := xattr.FGet(from, name)
		if errors.Is(err, xattr.ENOATTR) {
			continue
		}
		if err == nil {
			err = xattr.FSet(to, name, value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// copyAttributes copies a directory's attributes.
func copyAttributes(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return gone(err)
	}
	defer in.Close()
	out, err := os.Open(to)
	if err != nil {
		return err
	}
	return errors.Join(copyFileAttributes(in, out), out.Close())
}

// unsupported drops the error of a file system without attributes.
func unsupported(err error) error {
	if errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	return err
}

// gone drops the error of a file that no longer exists.
func gone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
