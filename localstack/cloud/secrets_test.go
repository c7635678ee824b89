package cloud_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/cloud/cloudtest"
	"millrace/localstack/emulators"
	"millrace/localstack/proof/fixture/canary"
)

// writing records what is written to it, also concurrently.
type writing struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (w *writing) add(data []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.buf.Write(data)
}

func (w *writing) bytes() []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	return bytes.Clone(w.buf.Bytes())
}

// overheard puts a proxy before a service that records the bodies of requests.
func overheard(t *testing.T, service *emulators.Endpoint) *writing {
	t.Helper()
	target, err := url.Parse(service.URL)
	require.NoError(t, err)
	kept := &writing{}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = r.In.Host
	}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		kept.add(body)
		kept.add([]byte("\n"))
		r.Body = io.NopCloser(bytes.NewReader(body))
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	service.URL = server.URL
	return kept
}

// TestSecretIsFoundNowhereInCloud runs a flow in the sandbox functions that
// prints, logs, returns, raises and sends a canary secret. It is in no message,
// event, item, object or log line of a function, in none of four encodings.
// Only KMS and the sandbox functions get it.
func TestSecretIsFoundNowhereInCloud(t *testing.T) {
	t.Parallel()
	services := *emulators.Shared(t)
	sent := map[string]*writing{
		"writes of the table": overheard(t, &services.DynamoDB), "messages": overheard(t, &services.SQS),
		"events": overheard(t, &services.EventBridge), "uploads": overheard(t, &services.S3),
	}
	output := &writing{}
	c := cloudtest.OpenWith(t, binary, cloudtest.Options{Services: &services, LogLevel: "debug", Output: output.add})
	c.Start()
	canary.Run(t, c.Client)
	for where, kept := range sent {
		data := kept.bytes()
		assert.NotEmpty(t, data, where)
		canary.NotIn(t, where, data)
	}
	assert.Contains(t, string(sent["writes of the table"].bytes()), "read_value", "the audit log is among what is written")
	assert.NotEmpty(t, output.bytes())
	canary.NotIn(t, "functions' logs", output.bytes())

	items := 0
	for page := dynamodb.NewScanPaginator(c.Services.DynamoDB, &dynamodb.ScanInput{TableName: &c.Deployment.Tables[0]}); page.HasMorePages(); {
		out, err := page.NextPage(t.Context())
		require.NoError(t, err)
		data, err := json.Marshal(out.Items)
		require.NoError(t, err)
		canary.NotIn(t, "table", data)
		items += len(out.Items)
	}
	assert.Greater(t, items, 10)
	objects := 0
	for page := s3.NewListObjectsV2Paginator(c.Services.S3, &s3.ListObjectsV2Input{Bucket: &c.Deployment.Buckets[0]}); page.HasMorePages(); {
		out, err := page.NextPage(t.Context())
		require.NoError(t, err)
		for _, object := range out.Contents {
			got, err := c.Services.S3.GetObject(t.Context(), &s3.GetObjectInput{Bucket: &c.Deployment.Buckets[0], Key: object.Key})
			require.NoError(t, err)
			data, err := io.ReadAll(got.Body)
			require.NoError(t, err)
			canary.NotIn(t, *object.Key, data)
			objects++
		}
	}
	assert.Greater(t, objects, 2, "the code, a large output, the log")
}
