package emulators

import (
	"context"
	"errors"
	"os/exec"
	"path/filepath"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

// The npm package of AWS's DynamoDB Local. The npm registry provides versions
// and checksums, AWS's own download neither.
const (
	simulator         = "amplify-dynamodb-simulator"
	simulatorVersion  = "2.9.30"
	simulatorChecksum = "xTeeRLvzEfqyd5lh3bH4c0kHvSHHmmhD5ZDsHFKAQ5g2Zl6JqlFdutaQhCLHzxEp6Ry1o7TB6niIoXuQAnSewQ=="
)

var dynamoDBLocal = program{
	name: "DynamoDB Local",
	command: func(ctx context.Context, port string) (*exec.Cmd, error) {
		java, err := exec.LookPath("java")
		if err != nil {
			return nil, errors.New("no java on the PATH: DynamoDB Local wants a Java runtime of version 17 or later")
		}
		dir, err := installed(ctx, "dynamodb-local-"+simulatorVersion, func(ctx context.Context, dir string) error {
			return npmPackage(ctx, dir, simulator, simulatorVersion, simulatorChecksum)
		})
		if err != nil {
			return nil, err
		}
		home := filepath.Join(dir, "package", "emulator")
		cmd := exec.Command(java,
			// For a process that runs for seconds, a fast start matters more than
			// optimized code.
			"-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx768m",
			"-Djava.library.path="+filepath.Join(home, "DynamoDBLocal_lib"),
			"-jar", filepath.Join(home, "DynamoDBLocal.jar"),
			"-inMemory", "-sharedDb", "-disableTelemetry", "-port", port)
		cmd.Dir = dir // it writes a file to its working directory
		return cmd, nil
	},
	ready: func(ctx context.Context, url string) error {
		client := dynamodb.NewFromConfig(local(url).Config(), func(o *dynamodb.Options) { o.RetryMaxAttempts = 1 })
		_, err := client.ListTables(ctx, &dynamodb.ListTablesInput{})
		return err
	},
}

// StartDynamoDB starts AWS's DynamoDB Local in memory, and installs it the
// first time. The caller must Kill it.
func StartDynamoDB(ctx context.Context) (*Process, error) { return dynamoDBLocal.start(ctx) }
