package objectstore

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestKnownDirs(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		work func(k *knownDirs, add func(begun uint64))
		want bool
	}{
		{"written", func(k *knownDirs, add func(uint64)) { add(k.begin()) }, true},
		{"deleted after", func(k *knownDirs, add func(uint64)) { add(k.begin()); k.deletion()() }, false},
		{"deleted meanwhile", func(k *knownDirs, add func(uint64)) { b := k.begin(); k.deletion()(); add(b) }, false},
		{"begun during a deletion", func(k *knownDirs, add func(uint64)) { done := k.deletion(); b := k.begin(); done(); add(b) }, false},
		{"within a deletion", func(k *knownDirs, add func(uint64)) { done := k.deletion(); add(k.begin()); done() }, false},
		{"written again", func(k *knownDirs, add func(uint64)) { add(k.begin()); k.deletion()(); add(k.begin()) }, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var k knownDirs
			tt.work(&k, func(begun uint64) { k.add(begun, []string{"bucket/org", "bucket/org/a"}) })
			assert.Equal(t, tt.want, k.has("bucket/org/a"))
			assert.Equal(t, tt.want, k.has("bucket/org"))
			assert.False(t, k.has("bucket"))
		})
	}
}
