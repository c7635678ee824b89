package emulators

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"millrace/localstack/filelock"
)

// Root returns the folder of the module that contains the working directory.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("no go.mod above the working directory")
		}
		dir = parent
	}
}

// installed returns the folder of a tool, in .tools beside go.mod, which
// install fills the first time. A file lock makes other processes wait. The
// folder is renamed when it is complete, so an interrupted installation starts
// over.
func installed(ctx context.Context, name string, install func(ctx context.Context, dir string) error) (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	tools := filepath.Join(root, ".tools")
	dir := filepath.Join(tools, name)
	if isDir(dir) {
		return dir, nil
	}
	if err := os.MkdirAll(tools, 0o755); err != nil {
		return "", err
	}
	lock, err := filelock.Wait(filepath.Join(tools, name+".lock"))
	if err != nil {
		return "", err
	}
	defer func() { _ = lock.Unlock() }() // nobody else has it
	if isDir(dir) {
		return dir, nil
	}
	partial := dir + ".partial"
	if err := os.RemoveAll(partial); err != nil {
		return "", err
	}
	if err := os.Mkdir(partial, 0o755); err != nil {
		return "", err
	}
	if err := install(ctx, partial); err != nil {
		return "", fmt.Errorf("install %s: %w", name, err)
	}
	return dir, os.Rename(partial, dir)
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// runIn runs a command in a folder. An error contains its output.
func runIn(ctx context.Context, dir, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return nil
}

// npmPackage downloads a package of the npm registry with npm, which knows the
// user's mirrors and proxies, checks its checksum (base64 of SHA-512, as in the
// registry) and unpacks it into dir. It ignores dependencies and scripts.
func npmPackage(ctx context.Context, dir, pkg, version, checksum string) error {
	if err := runIn(ctx, dir, "npm", "pack", "--silent", pkg+"@"+version); err != nil {
		return err
	}
	archive, err := os.Open(filepath.Join(dir, pkg+"-"+version+".tgz"))
	if err != nil {
		return err
	}
	defer func() { _ = archive.Close() }()
	hash := sha512.New()
	if _, err := io.Copy(hash, archive); err != nil {
		return err
	}
	if got := base64.StdEncoding.EncodeToString(hash.Sum(nil)); got != checksum {
		return fmt.Errorf("%s@%s has the checksum %s, not %s", pkg, version, got, checksum)
	}
	if _, err := archive.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if err := unpack(archive, dir); err != nil {
		return err
	}
	return os.Remove(archive.Name())
}

// unpack writes the files of a gzipped tar archive below dir. os.Root prevents
// names from escaping it.
func unpack(archive io.Reader, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	unzipped, err := gzip.NewReader(archive)
	if err != nil {
		return err
	}
	files := tar.NewReader(unzipped)
	for {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if header.Typeflag != tar.TypeReg {
			continue
		}
		if err := root.MkdirAll(filepath.Dir(header.Name), 0o755); err != nil {
			return err
		}
		file, err := root.Create(header.Name)
		if err != nil {
			return err
		}
		_, err = io.Copy(file, files)
		if err := errors.Join(err, file.Close()); err != nil {
			return err
		}
	}
}
