package emulators

import (
	"context"
	"crypto/rand"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"millrace/shared/platform/table"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMotoAnswers(t *testing.T) {
	t.Parallel()
	client := sqs.NewFromConfig(SQS(t).Config())
	_, err := client.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: new("q")})
	require.NoError(t, err)
}

func TestDynamoDBLocalAnswers(t *testing.T) {
	t.Parallel()
	client := dynamodb.NewFromConfig(DynamoDB(t).Config())
	_, err := client.ListTables(t.Context(), &dynamodb.ListTablesInput{})
	require.NoError(t, err)
}

func TestProcessRunsOneOfEach(t *testing.T) {
	t.Parallel()
	var wg sync.WaitGroup
	urls := make([]string, 10)
	for i := range urls {
		wg.Go(func() { urls[i] = Moto(t).URL })
	}
	wg.Wait()
	for _, url := range urls {
		assert.Equal(t, urls[0], url)
	}
}

func TestEnvironmentOverridesEndpoint(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	t.Setenv("AWS_PROFILE", "")
	t.Setenv("AWS_REGION", "")
	t.Setenv("AWS_DEFAULT_REGION", "")
	t.Setenv("AWS_ENDPOINT_URL", "http://localhost:4566")
	t.Setenv("AWS_ENDPOINT_URL_SQS", "http://localhost:9324")
	for want, got := range map[string]Endpoint{
		"http://localhost:4566": DynamoDB(t),
		"http://localhost:9324": SQS(t),
	} {
		assert.Equal(t, want, got.URL)
		cfg := got.Config()
		assert.Equal(t, want, *cfg.BaseEndpoint)
		assert.Equal(t, Region, cfg.Region)
		keys, err := cfg.Credentials.Retrieve(t.Context())
		require.NoError(t, err)
		assert.Equal(t, accessKey, keys.AccessKeyID)
	}

	t.Setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	t.Setenv("AWS_REGION", "eu-central-1")
	cfg := KMS(t).Config()
	assert.Equal(t, "eu-central-1", cfg.Region)
	keys, err := cfg.Credentials.Retrieve(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "AKIDEXAMPLE", keys.AccessKeyID)
}

func TestTableBelongsToTest(t *testing.T) {
	t.Parallel()
	var gone table.Table
	t.Run("inner", func(t *testing.T) {
		first, second := Table(t), Table(t)
		item := table.Item{"pk": table.V("p"), "sk": table.V("s")}
		require.NoError(t, first.Put(t.Context(), table.Put{Item: item}))
		_, err := second.Get(t.Context(), item.Key(), table.Consistent)
		require.ErrorIs(t, err, table.ErrNotFound)
		gone = first
	})
	require.ErrorContains(t, gone.Check(t.Context()), "non-existent table")
}

func TestTableIsCreatedBySchema(t *testing.T) {
	t.Parallel()
	client := dynamodb.NewFromConfig(DynamoDB(t).Config())
	name := "defined-" + rand.Text()
	require.NoError(t, CreateTable(t.Context(), client, name))
	require.ErrorContains(t, CreateTable(t.Context(), client, name), "preexisting table")
	made, err := client.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: &name})
	require.NoError(t, err)
	assert.Len(t, made.Table.GlobalSecondaryIndexes, len(table.Indexes))
	ttl, err := client.DescribeTimeToLive(t.Context(), &dynamodb.DescribeTimeToLiveInput{TableName: &name})
	require.NoError(t, err)
	assert.Equal(t, table.TTLAttribute, *ttl.TimeToLiveDescription.AttributeName)
}

func TestTakenPortIsReplaced(t *testing.T) {
	t.Parallel()
	var ports []string
	never := func(context.Context, string) error { return assert.AnError }
	p := program{name: "test", ready: never, command: func(_ context.Context, port string) (*exec.Cmd, error) {
		ports = append(ports, port)
		return exec.Command("sh", "-c", "echo Address already in use; exit 1"), nil
	}}
	_, err := p.start(t.Context())
	require.ErrorContains(t, err, "test: it ended before it was ready: exit status 1; it wrote:\nAddress already in use")
	assert.Len(t, ports, 3)
}

func TestInstallationRunsOnce(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("go.mod", nil, 0o600))
	require.NoError(t, os.MkdirAll("below", 0o700))
	t.Chdir("below")
	count := 0 // guarded by the lock
	install := func(_ context.Context, dir string) error {
		count++
		return os.WriteFile(filepath.Join(dir, "file"), nil, 0o600)
	}
	_, err := installed(t.Context(), "tool", func(context.Context, string) error { return assert.AnError })
	require.ErrorIs(t, err, assert.AnError)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			dir, err := installed(t.Context(), "tool", install)
			if assert.NoError(t, err) {
				assert.FileExists(t, filepath.Join(dir, "file"))
			}
		})
	}
	wg.Wait()
	assert.Equal(t, 1, count)
	assert.NoDirExists(t, filepath.Join("..", ".tools", "tool.partial"))
}
