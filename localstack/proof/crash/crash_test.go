package crash_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/embedded/objectstore"
	"millrace/localstack/proof/crash"
	"millrace/shared/platform/blob"
	"millrace/shared/platform/blob/s3"
	"millrace/shared/platform/queue"
)

var (
	crashes = flag.Int("crashes", 5, "how often to kill the server")
	seed    = flag.Uint64("seed", 1, "what the history is drawn from")
)

// binary is millrace, built once.
var binary string

// TestCrashes kills a server at random writes.
func TestCrashes(t *testing.T) {
	t.Parallel()
	parent, err := os.MkdirTemp("", "millrace-crash-")
	require.NoError(t, err)
	t.Logf("%d crashes, seed %d, in %s", *crashes, *seed, parent)
	report, err := crash.Run(t.Context(), crash.Config{
		Binary: binary, Dir: filepath.Join(parent, "data"), Crashes: *crashes, Seed: *seed, Logf: t.Logf,
		Objects: func(ctx context.Context, dir string) (blob.Store, error) { return objects(ctx, t, dir) },
	})
	t.Log(report)
	require.NoError(t, err)
	assert.Empty(t, report.Problems)
	assert.Equal(t, *crashes, report.Crashes)
	if *crashes < queue.MaxReceives {
		assert.Zero(t, report.GivenUp)
		assert.Zero(t, report.Dead, "no message is given up before ten servers died with it")
	}
	assert.Positive(t, report.Commits, "commits are seen")
	// On an idle machine about three for each kill; on a busy one fewer are
	// submitted.
	assert.Greater(t, report.Runs["SUCCEEDED"], *crashes/5, "work is done")
	if !t.Failed() {
		require.NoError(t, os.RemoveAll(parent))
	}
}

// objects serves the objects of a data directory.
func objects(ctx context.Context, t *testing.T, dir string) (blob.Store, error) {
	var keys struct {
		Access string `json:"s3_access_key"`
		Secret string `json:"s3_secret_key"`
	}
	data, err := os.ReadFile(filepath.Join(dir, "secrets.json"))
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(data, &keys); err != nil {
		return nil, err
	}
	s, err := objectstore.Start(ctx, objectstore.Config{Dir: dir, AccessKey: keys.Access, SecretKey: keys.Secret, Bucket: "artifacts"})
	if err != nil {
		return nil, fmt.Errorf("open objects: %w", err)
	}
	t.Cleanup(func() { assert.NoError(t, s.Close()) })
	return s3.New(s3.Config{
		Bucket: "artifacts", Region: objectstore.Region, Endpoint: s.Endpoint(),
		AccessKey: keys.Access, SecretKey: keys.Secret, PathStyle: true,
	}), nil
}
