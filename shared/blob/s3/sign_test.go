package s3

import (
	"net/url"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"millrace/shared/blob"
)

// TestOwnSignaturesAreTheSDKs compares presigned URLs with the SDK's.
func TestOwnSignaturesAreTheSDKs(t *testing.T) {
	t.Parallel()
	for _, c := range []Config{
		{Bucket: "artifacts", Region: "local", Endpoint: "http://127.0.0.1:9000", AccessKey: "AK+/x", SecretKey: "s k", PathStyle: true},
		{Bucket: "b.c-d", Endpoint: "http://inside:1", PublicEndpoint: "https://files.test:8443", AccessKey: "a", SecretKey: "b", PathStyle: true},
		{Bucket: "b", Region: "eu-central-1", Endpoint: "http://[::1]:9000", AccessKey: "AKIA", SecretKey: "/+=", PathStyle: true},
	} {
		s := New(c)
		require.NotNil(t, s.signer)
		_, sdk, err := s.clients(t.Context())
		require.NoError(t, err)
		rapid.Check(t, func(rt *rapid.T) {
			key := "org/" + rapid.StringMatching("[ -~äß€😀]{1,40}").Draw(rt, "key")
			ttl := time.Duration(rapid.Int64Range(int64(time.Second), int64(blob.MaxPresignTTL)).Draw(rt, "ttl"))
			get, err := sdk.PresignGetObject(t.Context(), &s3.GetObjectInput{Bucket: s.bucket, Key: &key}, s3.WithPresignExpires(ttl))
			require.NoError(rt, err)
			put, err := sdk.PresignPutObject(t.Context(), &s3.PutObjectInput{Bucket: s.bucket, Key: &key}, s3.WithPresignExpires(ttl))
			require.NoError(rt, err)
			require.Equal(rt, get.URL, at(rt, s.signer, get.URL).url("GET", "GetObject", key, ttl))
			require.Equal(rt, put.URL, at(rt, s.signer, put.URL).url("PUT", "PutObject", key, ttl))
		})
	}
}

// at is the signer at the time of a URL.
func at(t require.TestingT, s *signer, link string) *signer {
	u, err := url.Parse(link)
	require.NoError(t, err)
	date, err := time.Parse("20060102T150405Z", u.Query().Get("X-Amz-Date"))
	require.NoError(t, err)
	return &signer{
		base: s.base, host: s.host, bucket: s.bucket, region: s.region, accessKey: s.accessKey, secret: s.secret,
		now: func() time.Time { return date },
	}
}

func TestKeysOfDays(t *testing.T) {
	t.Parallel()
	s := newSigner(Config{Bucket: "b", Endpoint: "http://h:1", AccessKey: "a", SecretKey: "b", PathStyle: true})
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s.now = func() time.Time { return now }
	first := s.url("GET", "GetObject", "k", time.Minute)
	now = now.AddDate(0, 0, 1)
	second := s.url("GET", "GetObject", "k", time.Minute)
	now = now.AddDate(0, 0, -1)
	assert.NotEqual(t, first, second)
	assert.Equal(t, first, s.url("GET", "GetObject", "k", time.Minute))
}

func TestWhereTheSDKSigns(t *testing.T) {
	t.Parallel()
	simple := Config{Bucket: "b", Endpoint: "http://h:1", AccessKey: "a", SecretKey: "b", PathStyle: true}
	require.NotNil(t, newSigner(simple))
	for name, change := range map[string]func(*Config){
		"AWS":                func(c *Config) { c.Endpoint = "" },
		"bucket in the host": func(c *Config) { c.PathStyle = false },
		"other credentials":  func(c *Config) { c.AccessKey, c.SecretKey = "", "" },
		"default port":       func(c *Config) { c.Endpoint = "http://h" },
		"path":               func(c *Config) { c.Endpoint = "http://h:1/s3" },
	} {
		c := simple
		change(&c)
		assert.Nil(t, newSigner(c), name)
	}
}

func BenchmarkPresign(b *testing.B) {
	s := New(Config{Bucket: "artifacts", Endpoint: "http://127.0.0.1:9000", AccessKey: "AK", SecretKey: "sk", PathStyle: true})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.PresignPut(b.Context(), "org/runs/01ARZ3NDEKTSV4RRFFQ69G5FAV/out/17-1.json", 20*time.Minute); err != nil {
			b.Fatal(err)
		}
	}
}
