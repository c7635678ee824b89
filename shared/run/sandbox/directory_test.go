package sandbox_test

import (
	"bytes"
	"encoding/binary"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/platform/errs"
	"millrace/shared/run/sandbox"
)

// directory returns a zip with only a directory: n empty files, each with extra
// bytes of extra field and comment. claims sets the values in its end record.
func directory(n, extra int, zip64 bool, claims func(files, length uint64) (uint64, uint64)) []byte {
	header := make([]byte, 46+4+extra)
	binary.LittleEndian.PutUint32(header, 0x02014b50)
	binary.LittleEndian.PutUint16(header[28:], 4) // the name's length
	binary.LittleEndian.PutUint16(header[32:], uint16(extra))
	var out bytes.Buffer
	out.Grow(n*len(header) + 100)
	for i := range n {
		binary.LittleEndian.PutUint32(header[46:], 0x41414141+uint32(i))
		out.Write(header)
	}
	at := uint64(out.Len())
	files, length := claims(uint64(n), at)
	if zip64 {
		end, locator := make([]byte, 56), make([]byte, 20)
		binary.LittleEndian.PutUint32(end, 0x06064b50)
		binary.LittleEndian.PutUint64(end[32:], files)
		binary.LittleEndian.PutUint64(end[40:], length)
		binary.LittleEndian.PutUint32(locator, 0x07064b50)
		binary.LittleEndian.PutUint64(locator[8:], at)
		binary.LittleEndian.PutUint32(locator[16:], 1)
		out.Write(end)
		out.Write(locator)
		files = 0xffff
	}
	end := make([]byte, 22)
	binary.LittleEndian.PutUint32(end, 0x06054b50)
	binary.LittleEndian.PutUint16(end[10:], uint16(files))
	binary.LittleEndian.PutUint32(end[12:], uint32(length))
	out.Write(end)
	return out.Bytes()
}

func honest(files, length uint64) (uint64, uint64) { return files, length }

// TestCheckReadsNoHugeDirectory includes a directory whose end record states a
// small size. It counts allocations, so no other test may run.
func TestCheckReadsNoHugeDirectory(t *testing.T) {
	for name, c := range map[string]struct {
		zip  []byte
		want string
	}{
		"zip64": {directory(300_000, 0, true, honest), "it holds 300000 files, the limit is 50000"},
		"a count modulo 65536": {directory(300_000, 0, false, func(files, length uint64) (uint64, uint64) {
			return files % 65536, length
		}), "it holds more than 50000 files"},
		"a length of its own": {directory(300_000, 0, false, func(uint64, uint64) (uint64, uint64) {
			return 300_000 % 65536, 22
		}), "it holds more than 50000 files"},
		"large comments":           {directory(600, 40_000, false, honest), "its directory has 24030000 bytes, the limit is 16777216"},
		"large comments, unsaid":   {directory(600, 40_000, false, func(files, _ uint64) (uint64, uint64) { return files, 1 }), "the limit is 16777216"},
		"more than it has, zip64":  {directory(3, 0, true, func(uint64, uint64) (uint64, uint64) { return 1 << 40, 150 }), "the limit is 50000"},
		"longer than it is, zip64": {directory(3, 0, true, func(uint64, uint64) (uint64, uint64) { return 3, 1 << 62 }), "the limit is 16777216"},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := sandbox.Check(bytes.NewReader(c.zip), int64(len(c.zip)))
		runtime.ReadMemStats(&after)
		require.ErrorContains(t, err, c.want, name)
		assert.Equal(t, errs.Unprocessable, errs.CodeOf(err))
		assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20), name)
	}
}

// TestCheckReadsManyFiles checks that the limits leave room for what is
// allowed.
func TestCheckReadsManyFiles(t *testing.T) {
	t.Parallel()
	var files []file
	for i := range 2000 {
		files = append(files, file{name: strings.Repeat("d/", 20) + strings.Repeat("n", i%100+1) + string(rune('0'+i/100)) + ".py"})
	}
	data := pack(t, files...)
	require.NoError(t, sandbox.Check(bytes.NewReader(data), int64(len(data))))
	shifted := append([]byte("#!/usr/bin/env python3\n"), data...)
	require.NoError(t, sandbox.Check(bytes.NewReader(shifted), int64(len(shifted))), "a program may stand before it")
}
