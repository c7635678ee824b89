package sqs

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/platform/queue"
)

// request is the part of SQS's JSON protocol that the driver uses.
type request struct {
	Operation         string `json:"-"`
	QueueName         string
	WaitTimeSeconds   int
	VisibilityTimeout int
	Entries           []struct {
		Id, MessageBody, ReceiptHandle, MessageGroupId string
		DelaySeconds, VisibilityTimeout                int
	}
}

// server answers SQS requests with handle and records them.
type server struct {
	mu   sync.Mutex
	seen []request
}

func (s *server) count(operation string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, r := range s.seen {
		if r.Operation == operation {
			n++
		}
	}
	return n
}

// cut is the status of a response that breaks off in the middle.
const cut = 0

// serve starts a server. handle gets the number of the operation, from 1, not
// counting GetQueueUrl, and returns a status and a JSON body.
func serve(t *testing.T, handle func(r request, n int) (int, string)) (*Queues, *server) {
	t.Helper()
	s := &server{}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		var r request
		assert.NoError(t, json.NewDecoder(req.Body).Decode(&r))
		_, r.Operation, _ = strings.Cut(req.Header.Get("X-Amz-Target"), ".")
		s.mu.Lock()
		s.seen = append(s.seen, r)
		s.mu.Unlock()
		status, body := 200, `{"QueueUrl":"http://queue.example/1/`+r.QueueName+`"}`
		if r.Operation != "GetQueueUrl" {
			status, body = handle(r, s.count(r.Operation))
		}
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		w.WriteHeader(max(status, 200))
		fmt.Fprint(w, body)
		if status == cut {
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
	}))
	t.Cleanup(web.Close)
	q := New(Config{Prefix: "p-", AWS: func(context.Context) (aws.Config, error) {
		return aws.Config{
			Region: "us-east-1", BaseEndpoint: &web.URL,
			Credentials: credentials.NewStaticCredentialsProvider("access", "secret", ""),
		}, nil
	}})
	q.backoff = time.Millisecond
	return q, s
}

func fault(code, message string) string {
	return fmt.Sprintf(`{"__type":"com.amazonaws.sqs#%s","message":%q}`, code, message)
}

// failed returns a batch response in which the entries with these Ids fail.
func failed(code string, ours bool, ids ...string) string {
	var entries []string
	for _, id := range ids {
		entries = append(entries, fmt.Sprintf(`{"Id":%q,"Code":%q,"SenderFault":%t,"Message":"said SQS"}`, id, code, ours))
	}
	return `{"Failed":[` + strings.Join(entries, ",") + `],"Successful":[]}`
}

func messages(n int) []queue.Message {
	out := make([]queue.Message, n)
	for i := range out {
		out[i] = queue.Message{Body: fmt.Appendf(nil, "%d", i), Group: "g", Delay: time.Duration(i) * time.Millisecond}
	}
	return out
}

func TestSendOnTheWire(t *testing.T) {
	t.Parallel()
	q, s := serve(t, func(request, int) (int, string) { return 200, `{}` })
	require.NoError(t, q.Send(t.Context(), "work", queue.Message{Body: []byte("0")},
		queue.Message{Body: []byte("1"), Group: "ws", Delay: 1001 * time.Millisecond}))
	require.NoError(t, q.Send(t.Context(), "work", messages(1)...))
	require.Equal(t, 1, s.count("GetQueueUrl"), "looked up once")
	assert.Equal(t, "p-work", s.seen[0].QueueName)
	entries := s.seen[1].Entries
	require.Len(t, entries, 2)
	assert.Equal(t, "", entries[0].MessageGroupId)
	assert.Equal(t, "ws", entries[1].MessageGroupId)
	assert.Equal(t, []int{0, 2}, []int{entries[0].DelaySeconds, entries[1].DelaySeconds}, "rounded up")
}

func TestSendRequestsKeepLimits(t *testing.T) {
	t.Parallel()
	q, s := serve(t, func(request, int) (int, string) { return 200, `{}` })
	var msgs []queue.Message
	for i := range 40 {
		msgs = append(msgs, queue.Message{Body: bytes.Repeat([]byte{'1'}, 1+i*20_000)})
	}
	require.NoError(t, q.Send(t.Context(), "work", msgs...))
	total := 0
	for _, r := range s.seen[1:] {
		size := 0
		for _, e := range r.Entries {
			size += len(e.MessageBody)
			total++
		}
		assert.LessOrEqual(t, size, queue.MaxBody)
		assert.LessOrEqual(t, len(r.Entries), queue.MaxBatch)
	}
	assert.Equal(t, len(msgs), total)
}

func TestSendResendsFailedEntries(t *testing.T) {
	t.Parallel()
	q, s := serve(t, func(r request, n int) (int, string) {
		switch n {
		case 1:
			return 200, failed("InternalError", false, "1", "4")
		case 2:
			return 200, failed("InternalError", false, "1")
		}
		return 200, `{}`
	})
	require.NoError(t, q.Send(t.Context(), "work", messages(6)...))
	var sent []string
	for _, r := range s.seen[2:] {
		for _, e := range r.Entries {
			sent = append(sent, e.MessageBody)
		}
	}
	assert.Equal(t, []string{"1", "4", "4"}, sent)
}

func TestSendGivesUp(t *testing.T) {
	t.Parallel()
	q, s := serve(t, func(request, int) (int, string) { return 200, failed("InternalError", false, "0") })
	require.ErrorContains(t, q.Send(t.Context(), "work", messages(2)...), "InternalError")
	assert.Equal(t, maxAttempts, s.count("SendMessageBatch"))

	q, s = serve(t, func(request, int) (int, string) { return 200, failed("InvalidMessageContents", true, "0") })
	require.ErrorIs(t, q.Send(t.Context(), "work", messages(2)...), queue.ErrLimit)
	assert.Equal(t, 1, s.count("SendMessageBatch"), "it would fail again")

	q, s = serve(t, func(request, int) (int, string) { return 503, fault("ServiceUnavailable", "later") })
	require.ErrorContains(t, q.Send(t.Context(), "work", messages(2)...), "ServiceUnavailable")
	assert.Equal(t, maxAttempts, s.count("SendMessageBatch"), "the SDK alone repeats requests")

	q, _ = serve(t, func(request, int) (int, string) { return 200, failed("InternalError", false, "7") })
	require.ErrorContains(t, q.Send(t.Context(), "work", messages(2)...), "was not sent")
}

// TestThrottledRequestsAreRepeated covers what SQS refuses for now, with the
// sender's fault or without: of a batch's entries, and of a whole request.
func TestThrottledRequestsAreRepeated(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"RequestThrottled", "AWS.SimpleQueueService.RequestThrottled", "ThrottlingException", "KMS.ThrottlingException", "KmsThrottled"} {
		for where, first := range map[string]func() (int, string){
			"entry":   func() (int, string) { return 200, failed(code, true, "0") },
			"request": func() (int, string) { return 400, fault(code[strings.LastIndexByte(code, '.')+1:], "slower") },
		} {
			t.Run(code+" "+where, func(t *testing.T) {
				t.Parallel()
				q, s := serve(t, func(_ request, n int) (int, string) {
					if n == 1 {
						return first()
					}
					return 200, `{}`
				})
				require.NoError(t, q.Send(t.Context(), "work", messages(1)...))
				assert.Equal(t, 2, s.count("SendMessageBatch"))
			})
		}
	}
}

// TestTruncatedResponseIsRetried checks that messages are not lost. They may
// arrive twice.
func TestTruncatedResponseIsRetried(t *testing.T) {
	t.Parallel()
	q, s := serve(t, func(_ request, n int) (int, string) {
		if n == 1 {
			return cut, `{"Successful":[`
		}
		return 200, `{}`
	})
	require.NoError(t, q.Send(t.Context(), "work", messages(2)...))
	assert.Equal(t, 2, s.count("SendMessageBatch"))
}

func TestExtendTranslates(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]error{
		"ReceiptHandleIsInvalid":                     queue.ErrReceipt,
		"InvalidParameterValue":                      queue.ErrReceipt,
		"AWS.SimpleQueueService.MessageNotInflight":  queue.ErrReceipt,
		"AWS.SimpleQueueService.NonExistentQueue":    queue.ErrUnknownQueue,
		"AWS.SimpleQueueService.BatchRequestTooLong": queue.ErrLimit,
	} {
		q, s := serve(t, func(request, int) (int, string) { return 200, failed(code, true, "1") })
		require.ErrorIs(t, q.Extend(t.Context(), "work", 1500*time.Millisecond, "a", "b\norg/messages/1"), want, code)
		entries := s.seen[1].Entries
		assert.Equal(t, "b", entries[1].ReceiptHandle, "the object's key stays here")
		assert.Equal(t, 2, entries[1].VisibilityTimeout)
	}
	assert.Equal(t, queue.ErrLimit, translate("InvalidParameterValue", "Value 43200 for parameter VisibilityTimeout is invalid. Reason: Total"))
	q, _ := serve(t, func(request, int) (int, string) { return 200, `{}` })
	require.ErrorIs(t, q.Extend(t.Context(), "work", 0, "a", ""), queue.ErrReceipt)
}

// TestSettleGoesOnAfterFailedBatch checks that the other batches are sent.
func TestSettleGoesOnAfterFailedBatch(t *testing.T) {
	t.Parallel()
	q, s := serve(t, func(r request, n int) (int, string) {
		if r.Entries[0].ReceiptHandle == "r00" {
			return 400, fault("InvalidSecurity", "no")
		}
		return 200, `{}`
	})
	var receipts []string
	for i := range 25 {
		receipts = append(receipts, fmt.Sprintf("r%02d", i))
	}
	require.ErrorContains(t, q.Delete(t.Context(), "work", receipts...), "InvalidSecurity")
	assert.Equal(t, 3, s.count("DeleteMessageBatch"))
}

func TestDeletedQueueIsLookedUpAgain(t *testing.T) {
	t.Parallel()
	q, s := serve(t, func(_ request, n int) (int, string) {
		if n == 1 {
			return 400, fault("QueueDoesNotExist", "it was deleted")
		}
		return 200, `{}`
	})
	require.ErrorIs(t, q.Send(t.Context(), "work", messages(1)...), queue.ErrUnknownQueue)
	require.NoError(t, q.Send(t.Context(), "work", messages(1)...))
	assert.Equal(t, 2, s.count("GetQueueUrl"))
}

// TestAbandonedReceiveReturnsMessages checks that messages which a poll
// receives after its caller has left return to the queue.
func TestAbandonedReceiveReturnsMessages(t *testing.T) {
	t.Parallel()
	polled, left, returned := make(chan struct{}), make(chan struct{}), make(chan request, 1)
	q, _ := serve(t, func(r request, _ int) (int, string) {
		if r.Operation == "ChangeMessageVisibilityBatch" {
			returned <- r
			return 200, `{}`
		}
		assert.Equal(t, 20, r.WaitTimeSeconds)
		close(polled)
		<-left
		return 200, `{"Messages":[{"MessageId":"m","ReceiptHandle":"h","Body":"1"}]}`
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-polled
		cancel()
	}()
	_, err := q.Receive(ctx, "work", 1, queue.MaxWait)
	require.ErrorIs(t, err, context.Canceled)
	close(left)
	r := <-returned
	require.Len(t, r.Entries, 1)
	assert.Equal(t, "h", r.Entries[0].ReceiptHandle)
	assert.Zero(t, r.Entries[0].VisibilityTimeout)
}

func TestConfigurationErrorIsReported(t *testing.T) {
	t.Parallel()
	fails := true
	q, _ := serve(t, func(request, int) (int, string) { return 200, `{}` })
	works := q.cfg.AWS
	q.cfg.AWS = func(ctx context.Context) (aws.Config, error) {
		if fails {
			return aws.Config{}, assert.AnError
		}
		return works(ctx)
	}
	require.ErrorIs(t, q.Send(t.Context(), "work", messages(1)...), assert.AnError)
	fails = false
	require.NoError(t, q.Send(t.Context(), "work", messages(1)...), "it is tried again")
}
