package main

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCountListsResourcesByKind(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	require.NoError(t, count(&out, []string{filepath.Join("testdata", "data.template.json")}))
	assert.Regexp(t, `^data: \d+ of 500 resources, \d+ KB\n`, out.String())
	assert.Contains(t, out.String(), "     1 DynamoDB::Table\n")
	require.Error(t, count(&out, []string{"no-such.template.json"}))
	require.ErrorContains(t, count(&out, []string{"count.go"}), "count.go")
}
