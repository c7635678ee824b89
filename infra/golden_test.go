package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTemplatesMatchGoldenFiles(t *testing.T) {
	t.Parallel()
	files := map[string]template{"object-events.json": deployedWithParcels(t).objectEvents()}
	for name, template := range deployed(t).templates() {
		files[name+".template.json"] = template
	}
	for name, template := range files {
		path := filepath.Join("testdata", name)
		if *update {
			require.NoError(t, os.MkdirAll("testdata", 0o755))
			require.NoError(t, os.WriteFile(path, []byte(template.golden(t)), 0o644))
			continue
		}
		want, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, string(want), template.golden(t), "%s is out of date: run make generate", path)
	}
}

func TestStacksAreFarBelowCloudFormationLimits(t *testing.T) {
	t.Parallel()
	for name, template := range deployed(t).templates() {
		assert.Less(t, len(template.resources), 400, name)
		assert.Less(t, len(template.golden(t)), 900_000, name)
	}
}

func TestNewCodeDoesNotChangeDataStack(t *testing.T) {
	t.Parallel()
	d := deployed(t)
	other := synth(t, Config{Tenant: "acme", Region: "eu-west-1", Stage: "prod", Version: "2.0.0"}, d.specs, "other code")
	assert.Equal(t, d.data.json, other.data.json)
	assert.Equal(t, d.operations.json, other.operations.json)
	assert.NotEqual(t, d.service.json, other.service.json)
	assert.NotEqual(t, d.function(t, "runs").properties["Code"], other.function(t, "runs").properties["Code"])
}
