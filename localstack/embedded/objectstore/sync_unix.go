//go:build !windows

package objectstore

import "os"

func openToSync(path string) (*os.File, error) { return os.Open(path) }
