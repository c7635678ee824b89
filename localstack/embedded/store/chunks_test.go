package store

import (
	"bytes"
	"testing"

	"github.com/cockroachdb/pebble/v2/record"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// FuzzChunks reads arbitrary bytes as a log and as a manifest, and checks that
// it finds as many records as Pebble does.
func FuzzChunks(f *testing.F) {
	killed, _, _, _ := busy(f, false)
	f.Add(killed[killed.newest("MANIFEST-", "")], uint32(0))
	f.Add(killed[killed.newest("MANIFEST-", "")][:300], uint32(0))
	f.Add(killed[killed.liveLogs(f)[0]][:40<<10], uint32(7))
	f.Add([]byte{}, uint32(1))
	f.Add(make([]byte, blockSize+3), uint32(1))
	f.Fuzz(func(t *testing.T, data []byte, number uint32) {
		for _, log := range []*uint32{nil, &number} {
			records, state := 0, edit{}
			c := chunkReader{r: bytes.NewReader(data), number: log}
			require.NoError(t, c.scan(256, func(head []byte) { records++; state.read(head) }))
			assert.EqualValues(t, len(data), c.size)
			assert.LessOrEqual(t, c.end, c.size)
			if log == nil {
				reader, theirs := record.NewReader(bytes.NewReader(data), 0), 0
				for {
					r, err := reader.Next()
					if err != nil {
						break
					}
					var all bytes.Buffer
					if _, err := all.ReadFrom(r); err != nil {
						break
					}
					theirs++
				}
				if c.behind < 0 { // otherwise Pebble may accept a record that is rejected here
					assert.LessOrEqual(t, records, theirs)
				}
			}
		}
	})
}
