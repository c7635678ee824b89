package sandbox_test

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/platform/errs"
	"millrace/shared/run/sandbox"
)

type file struct {
	name    string
	content string
	mode    fs.FileMode
	flags   uint16
	method  uint16
}

func pack(t testing.TB, files ...file) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := zip.NewWriter(&buf)
	for _, f := range files {
		h := &zip.FileHeader{Name: f.name, Method: zip.Deflate}
		if f.mode != 0 {
			h.SetMode(f.mode)
		}
		out, err := w.CreateHeader(h)
		require.NoError(t, err)
		if !strings.HasSuffix(f.name, "/") {
			_, err = io.WriteString(out, f.content)
			require.NoError(t, err)
		}
	}
	require.NoError(t, w.Close())
	data := buf.Bytes()
	for _, f := range files { // fields of the central directory that the writer does not let one set
		at := bytes.LastIndex(data, []byte(f.name)) - 46
		if f.flags != 0 {
			binary.LittleEndian.PutUint16(data[at+8:], f.flags)
		}
		if f.method != 0 {
			binary.LittleEndian.PutUint16(data[at+10:], f.method)
		}
	}
	return data
}

func noise(n int) string {
	b := make([]byte, n)
	x := uint64(88172645463325252)
	for i := range b {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		b[i] = byte(x)
	}
	return string(b)
}

func TestCheckRejects(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		files []file
		want  string
	}{
		"parent":              {[]file{{name: "../evil.py"}}, "leads out"},
		"parent inside":       {[]file{{name: "a/../../evil.py"}}, "leads out"},
		"parent that returns": {[]file{{name: "a/../b.py"}}, "leads out"},
		"absolute":            {[]file{{name: "/etc/passwd"}}, "absolute"},
		"drive":               {[]file{{name: "C:evil.py"}}, "absolute"},
		"backslash":           {[]file{{name: `a\..\evil.py`}}, "backslash"},
		"control character":   {[]file{{name: "a\x00.py"}}, "not plain text"},
		"symbolic link":       {[]file{{name: "link", content: "/etc/passwd", mode: fs.ModeSymlink | 0o777}}, "symbolic link"},
		"device":              {[]file{{name: "null", mode: fs.ModeDevice | 0o666}}, "neither a file nor a directory"},
		"pipe":                {[]file{{name: "fifo", mode: fs.ModeNamedPipe | 0o666}}, "neither a file nor a directory"},
		"twice":               {[]file{{name: "a.py"}, {name: "a.py"}}, "twice"},
		"twice by cleaning":   {[]file{{name: "d/a.py"}, {name: "d/./a.py"}}, "twice"},
		"file and directory":  {[]file{{name: "a"}, {name: "a/b.py"}}, "both a file and a directory"},
		"encrypted":           {[]file{{name: "secret.py", content: "x", flags: 1}}, "encrypted"},
		"method":              {[]file{{name: "lzma.py", content: "x", method: 14}}, "method"},
		"bomb by ratio":       {[]file{{name: "zeros", content: strings.Repeat("\x00", 8<<20)}}, "more than 100 times"},
		"long name":           {[]file{{name: strings.Repeat("n", 1025)}}, "longer than"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data := pack(t, tc.files...)
			err := sandbox.Check(bytes.NewReader(data), int64(len(data)))
			require.Error(t, err)
			assert.Equal(t, errs.Unprocessable, errs.CodeOf(err))
			assert.ErrorContains(t, err, tc.want)

			outside := t.TempDir()
			dir := filepath.Join(outside, "in")
			require.NoError(t, os.Mkdir(dir, 0o755))
			require.Error(t, sandbox.Extract(bytes.NewReader(data), int64(len(data)), dir))
			left, err := os.ReadDir(outside)
			require.NoError(t, err)
			assert.Len(t, left, 1, "nothing may be written outside")
		})
	}
}

func TestCheckRejectsOtherFiles(t *testing.T) {
	t.Parallel()
	for _, data := range []string{"", "PK", "hello", strings.Repeat("x", 1000)} {
		err := sandbox.Check(strings.NewReader(data), int64(len(data)))
		assert.Equal(t, errs.Unprocessable, errs.CodeOf(err), "%q", data)
	}
}

func TestCheckRejectsMoreThanAGigabyte(t *testing.T) {
	t.Parallel()
	data := pack(t, file{name: "big", content: noise(1 << 20)})
	at := bytes.LastIndex(data, []byte("big")) - 46
	binary.LittleEndian.PutUint32(data[at+24:], 2<<30) // claims 2 GB
	err := sandbox.Check(bytes.NewReader(data), int64(len(data)))
	assert.ErrorContains(t, err, "more than 1 GB")
}

// TestExtractEnforcesRealSizes extracts a zip whose directory states a smaller
// size.
func TestExtractEnforcesRealSizes(t *testing.T) {
	t.Parallel()
	data := pack(t, file{name: "zeros", content: strings.Repeat("\x00", 16<<20)})
	at := bytes.LastIndex(data, []byte("zeros")) - 46
	binary.LittleEndian.PutUint32(data[at+24:], 10)
	require.NoError(t, sandbox.Check(bytes.NewReader(data), int64(len(data))), "the claim itself is harmless")
	dir := t.TempDir()
	err := sandbox.Extract(bytes.NewReader(data), int64(len(data)), dir)
	assert.Equal(t, errs.Unprocessable, errs.CodeOf(err))
	written, err := os.Stat(filepath.Join(dir, "zeros"))
	require.NoError(t, err)
	assert.LessOrEqual(t, written.Size(), int64(2<<20))
}

func TestExtract(t *testing.T) {
	t.Parallel()
	data := pack(t,
		file{name: "flow.py", content: "x = 1\n"},
		file{name: "pkg/"},
		file{name: "pkg/sub/mod.py", content: strings.Repeat("# a comment\n", 3000)},
		file{name: "bin/tool", content: "#!/bin/sh\n", mode: 0o4755},
		file{name: "größe.py", content: "y = 2\n"},
	)
	require.NoError(t, sandbox.Check(bytes.NewReader(data), int64(len(data))))
	dir := t.TempDir()
	require.NoError(t, sandbox.Extract(bytes.NewReader(data), int64(len(data)), dir))
	got, err := os.ReadFile(filepath.Join(dir, "flow.py"))
	require.NoError(t, err)
	assert.Equal(t, "x = 1\n", string(got))
	for name, mode := range map[string]fs.FileMode{"pkg/sub/mod.py": 0o644, "bin/tool": 0o755, "größe.py": 0o644} {
		info, err := os.Stat(filepath.Join(dir, name))
		require.NoError(t, err)
		assert.Equal(t, mode, info.Mode(), name)
	}
}

// TestExtractFollowsNoLink checks that existing entries of the directory are
// neither followed nor overwritten.
func TestExtractFollowsNoLink(t *testing.T) {
	t.Parallel()
	outside, dir := t.TempDir(), t.TempDir()
	require.NoError(t, os.Symlink(outside, filepath.Join(dir, "pkg")))
	data := pack(t, file{name: "pkg/evil.py", content: "x"})
	require.Error(t, sandbox.Extract(bytes.NewReader(data), int64(len(data)), dir))
	left, err := os.ReadDir(outside)
	require.NoError(t, err)
	assert.Empty(t, left)
}

type broken struct{}

func (broken) ReadAt([]byte, int64) (int, error) { return 0, errors.New("disk on fire") }

// TestCheckPassesStorageErrors checks that a failing store is not reported as
// the user's error.
func TestCheckPassesStorageErrors(t *testing.T) {
	t.Parallel()
	err := sandbox.Check(broken{}, 1000)
	require.ErrorContains(t, err, "disk on fire")
	assert.Equal(t, errs.Internal, errs.CodeOf(err))
}

func FuzzCheck(f *testing.F) {
	f.Add(pack(f, file{name: "flow.py", content: "x = 1"}, file{name: "a/b/c.py", content: "y"}))
	f.Add(pack(f, file{name: "../evil", content: "x"}))
	f.Add(pack(f, file{name: "link", content: "/etc", mode: fs.ModeSymlink | 0o777}))
	f.Add([]byte("PK\x05\x06"))
	f.Fuzz(func(t *testing.T, data []byte) {
		outside := t.TempDir()
		dir := filepath.Join(outside, "in")
		require.NoError(t, os.Mkdir(dir, 0o755))
		checked := sandbox.Check(bytes.NewReader(data), int64(len(data)))
		extracted := sandbox.Extract(bytes.NewReader(data), int64(len(data)), dir)
		if checked != nil {
			assert.Equal(t, errs.Unprocessable, errs.CodeOf(checked))
			assert.Error(t, extracted)
		}
		left, err := os.ReadDir(outside)
		require.NoError(t, err)
		assert.Len(t, left, 1)
		_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
			require.NoError(t, err)
			assert.Zero(t, d.Type()&^fs.ModeDir, "only files and directories")
			return nil
		})
	})
}
