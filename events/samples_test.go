package events_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	lambda "github.com/aws/aws-lambda-go/events"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/events"
	"millrace/shared/platform/bus"
	"millrace/shared/platform/clock"
)

// TestSamples decodes every sample strictly, so that samples keep up with
// renamed fields.
func TestSamples(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join("samples", "*"))
	require.NoError(t, err)
	var kinds []string
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		switch {
		case name == "scheduler-tick":
			assert.Equal(t, events.TickType, strict[events.SchedulerTick](t, data).EventType)
		case name == "run-finished":
			finished(t, data)
		case strings.HasPrefix(name, "run-"):
			for _, record := range strict[lambda.SQSEvent](t, data).Records {
				message := strict[events.Run](t, []byte(record.Body))
				assert.Equal(t, strings.TrimPrefix(name, "run-"), message.Kind)
				assert.Equal(t, record.Attributes["MessageGroupId"], message.Org)
				queue := record.EventSourceARN[strings.LastIndexByte(record.EventSourceARN, ':')+1:]
				assert.Contains(t, events.AllQueues(), queue)
				assert.Equal(t, message.Kind == events.RunReconcile, queue == events.Runs, "reconciliations, and nothing else, go to %s", events.Runs)
				kinds = append(kinds, message.Kind)
			}
		case strings.HasPrefix(name, "due-"):
			for _, record := range strict[lambda.SQSEvent](t, data).Records {
				message := strict[events.Due](t, []byte(record.Body))
				assert.Equal(t, strings.TrimPrefix(name, "due-"), message.Kind)
				assert.True(t, strings.HasPrefix(message.PK, record.Attributes["MessageGroupId"]+"#"), "the item is of the group's workspace")
				assert.NotEmpty(t, message.SK)
				assert.False(t, message.At.IsZero())
				assert.True(t, strings.HasSuffix(record.EventSourceARN, ":"+name), "the queue is that of the kind")
			}
		case strings.HasPrefix(name, "object-"):
			for _, record := range strict[lambda.SQSEvent](t, data).Records {
				objects, err := events.ReadObjects(record.Body)
				require.NoError(t, err)
				require.NotEmpty(t, objects)
				for _, o := range objects {
					assert.True(t, o.Created())
				}
				assert.True(t, strings.HasSuffix(record.EventSourceARN, ":"+events.ObjectQueue))
			}
		case strings.HasPrefix(name, "bus-"):
			for _, record := range strict[lambda.SQSEvent](t, data).Records {
				event, err := strict[bus.Envelope](t, []byte(record.Body)).Event()
				require.NoError(t, err)
				org := ""
				switch event.DetailType {
				case events.DetailRunFinished:
					org = finished(t, []byte(record.Body)).Org
				case events.DetailRunAlert:
					org = strict[events.RunFinished](t, event.Detail).Org
				case events.DetailTaskRetried:
					org = strict[events.TaskRetried](t, event.Detail).Org
				}
				assert.Equal(t, []string{org, org}, []string{event.Workspace, record.Attributes["MessageGroupId"]}, file)
				assert.NotEmpty(t, org, "%s: no event is known for %s", file, event.DetailType)
				assert.Contains(t, record.EventSourceARN, ":bus-", "%s: the queue is that of a function", file)
			}
		case strings.HasPrefix(name, "api-"):
			assert.NotEmpty(t, strict[lambda.APIGatewayProxyRequest](t, data).Path)
		default:
			assert.Fail(t, "no event is known for the sample "+file)
		}
	}
	assert.ElementsMatch(t, []string{events.RunStart, events.RunTask, events.RunPropagate, events.RunReconcile}, kinds,
		"a sample of each kind of message")
}

// finished reads the event of a run's end.
func finished(t *testing.T, data []byte) events.RunFinished {
	t.Helper()
	envelope := strict[bus.Envelope](t, data)
	assert.Equal(t, events.DetailRunFinished, envelope.DetailType)
	assert.Equal(t, bus.Source, envelope.Source)
	event, err := envelope.Event()
	require.NoError(t, err)
	out := strict[events.RunFinished](t, event.Detail)
	assert.Equal(t, []string{out.Org, out.Run, out.EndedAt}, []string{event.Workspace, event.DedupeKey, clock.Format(event.Time)})
	return out
}

func strict[T any](t *testing.T, data []byte) T {
	t.Helper()
	var v T
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	require.NoError(t, d.Decode(&v), "%s", data)
	return v
}
