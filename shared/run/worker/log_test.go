package worker

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"millrace/shared/run/runstate"
)

// TestClipSplitsNoCharacter checks where a message is truncated.
func TestClipSplitsNoCharacter(t *testing.T) {
	t.Parallel()
	whole := strings.Repeat("x", runstate.MaxMessage)
	assert.Equal(t, whole, clip(whole))
	assert.Equal(t, whole+"…", clip(whole+"y"))
	short := whole[:runstate.MaxMessage-1]
	assert.Equal(t, short+"…", clip(short+"é"))
}
