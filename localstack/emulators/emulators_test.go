package emulators

import (
	"bytes"
	"context"
	"crypto/rand"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"millrace/shared/table"

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

func TestAProcessRunsOneOfEach(t *testing.T) {
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

func TestTheEnvironmentLeadsElsewhere(t *testing.T) {
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

func TestATableIsTheTestsOwn(t *testing.T) {
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

func TestATableIsMadeByItsDefinition(t *testing.T) {
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

// shell is a program that runs a script instead of an emulator.
func shell(script string, ready func(context.Context, string) error) program {
	return program{
		name:    "test",
		command: func(context.Context, string) (*exec.Cmd, error) { return exec.Command("sh", "-c", script), nil },
		ready:   ready,
	}
}

func never(context.Context, string) error  { return assert.AnError }
func atOnce(context.Context, string) error { return nil }

func TestOneThatEndsTellsWhy(t *testing.T) {
	t.Parallel()
	_, err := shell("echo no such option >&2; exit 3", never).start(t.Context())
	require.ErrorContains(t, err, "test: it ended before it was ready: exit status 3")
	assert.ErrorContains(t, err, "no such option")
}

func TestOneThatIsNeverReadyIsKilled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	p := shell("echo still starting; exec sleep 600", func(context.Context, string) error {
		cancel()
		return assert.AnError
	})
	inner := p.command
	var cmd *exec.Cmd
	p.command = func(ctx context.Context, port string) (*exec.Cmd, error) {
		var err error
		cmd, err = inner(ctx, port)
		return cmd, err
	}
	_, err := p.start(ctx)
	require.ErrorIs(t, err, assert.AnError)
	assert.False(t, cmd.ProcessState.Success())
}

func TestATakenPortIsChosenAnew(t *testing.T) {
	t.Parallel()
	var ports []string
	p := program{name: "test", ready: never, command: func(_ context.Context, port string) (*exec.Cmd, error) {
		ports = append(ports, port)
		return exec.Command("sh", "-c", "echo Address already in use; exit 1"), nil
	}}
	_, err := p.start(t.Context())
	require.ErrorContains(t, err, "already in use")
	assert.Len(t, ports, 3)
}

func TestStopKillsTheWholeGroup(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "pid")
	proc, err := shell("sleep 600 & echo $! > "+file+".new; mv "+file+".new "+file+"; wait", func(context.Context, string) error {
		_, err := os.Stat(file)
		return err
	}).start(t.Context())
	require.NoError(t, err)
	child, err := os.ReadFile(file)
	require.NoError(t, err)
	proc.Stop()
	proc.Stop()
	requireGone(t, strings.TrimSpace(string(child)))
}

// requireGone waits until no process of that id lives; a dead one that nobody
// has waited for yet counts as gone.
func requireGone(t *testing.T, pid string) {
	t.Helper()
	require.Eventually(t, func() bool {
		stat, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
		return err != nil || strings.Contains(string(stat), ") Z ")
	}, 10*time.Second, 5*time.Millisecond, "process %s lives on", pid)
}

// TestAnEmulatorDiesWithItsParent kills a process that runs an emulator, as a
// test's time-out does.
func TestAnEmulatorDiesWithItsParent(t *testing.T) {
	t.Parallel()
	if os.Getenv("EMULATORS_TEST_PARENT") != "" {
		proc, err := shell("exec sleep 600", atOnce).start(t.Context())
		require.NoError(t, err)
		_, _ = os.Stderr.WriteString("child " + strconv.Itoa(proc.PID()) + "\n")
		<-proc.Exited()
		return
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestAnEmulatorDiesWithItsParent$")
	cmd.Env = append(os.Environ(), "EMULATORS_TEST_PARENT=1")
	stderr, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	var said bytes.Buffer
	buf := make([]byte, 256)
	for !strings.Contains(said.String(), "\n") {
		n, err := stderr.Read(buf)
		require.NoError(t, err, "it said %s", &said)
		said.Write(buf[:n])
	}
	pid, found := strings.CutPrefix(strings.TrimSpace(said.String()), "child ")
	require.True(t, found, said.String())
	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait())
	requireGone(t, pid)
}

func TestAnInstallationIsMadeOnce(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("go.mod", nil, 0o600))
	require.NoError(t, os.MkdirAll("below", 0o700))
	t.Chdir("below")
	count := 0 // the lock guards it
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
