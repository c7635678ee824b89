package drivers_test

import (
	"context"
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsbridge "github.com/aws/aws-sdk-go-v2/service/eventbridge"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/stretchr/testify/require"

	"millrace/localstack/emulators"
	"millrace/localstack/proof/drivers"
	"millrace/localstack/proof/fixture/reminders"
	"millrace/localstack/proof/localtest"
	"millrace/shared/platform/blob"
	"millrace/shared/platform/blob/s3"
	"millrace/shared/platform/bus/eventbridge"
	"millrace/shared/platform/ids"
	"millrace/shared/platform/queue/sqs"
)

// testdata is absolute, because an object store may change the working
// directory.
var testdata string

func TestMain(m *testing.M) {
	dir, err := filepath.Abs("testdata")
	if err != nil {
		panic(err)
	}
	testdata = dir
	code := m.Run()
	emulators.StopAll()
	os.Exit(code)
}

// cloud opens the cloud's drivers on DynamoDB Local and moto, with a new table,
// queues and bucket.
func cloud(t *testing.T) localtest.Options {
	t.Helper()
	base := emulators.SQS(t).Config()
	prefix := ids.Token(6) + "-"
	require.NoError(t, sqs.CreateQueues(t.Context(), awssqs.NewFromConfig(base), prefix, localtest.Queues(reminders.DueSpec)))
	objects := bucket(t)
	events := emulators.EventBridge(t).Config()
	bus := "test-" + rand.Text()
	_, err := awsbridge.NewFromConfig(events).CreateEventBus(t.Context(), &awsbridge.CreateEventBusInput{Name: &bus})
	require.NoError(t, err)
	return localtest.Options{
		Table: emulators.Table(t),
		Blob:  objects,
		Bus:   eventbridge.New(eventbridge.Config{Bus: bus, AWS: func(context.Context) (aws.Config, error) { return events, nil }}),
		Queues: sqs.New(sqs.Config{
			Prefix: prefix, Objects: objects,
			AWS: func(context.Context) (aws.Config, error) { return base, nil },
		}),
	}
}

// bucket creates a bucket for the test.
func bucket(t *testing.T) blob.Store {
	t.Helper()
	endpoint := emulators.S3(t)
	base := endpoint.Config()
	name := "test-" + strings.ToLower(rand.Text())
	client := awss3.NewFromConfig(base, func(o *awss3.Options) { o.UsePathStyle = true })
	_, err := client.CreateBucket(t.Context(), &awss3.CreateBucketInput{Bucket: &name})
	require.NoError(t, err)
	keys, err := base.Credentials.Retrieve(t.Context())
	require.NoError(t, err)
	return s3.New(s3.Config{
		Bucket: name, Region: base.Region, Endpoint: endpoint.URL, PathStyle: true,
		AccessKey: keys.AccessKeyID, SecretKey: keys.SecretAccessKey,
	})
}

func TestCloud(t *testing.T) {
	t.Parallel()
	drivers.Exercise(t, cloud)
}
