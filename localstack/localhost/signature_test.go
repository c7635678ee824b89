package localhost_test

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/localhost"
)

// now is the time of signatures made by other programs.
var now = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// check checks a call like the server.
func check(keys localhost.Keys, r *http.Request, body string, now time.Time) error {
	verify, err := keys.Check(r, now)
	if err != nil {
		return err
	}
	return verify([]byte(body))
}

// TestSignaturesOfOtherPrograms checks requests signed by botocore (the AWS
// CLI) and curl.
func TestSignaturesOfOtherPrograms(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		request, body string
		at            time.Time
	}{
		"botocore": {`POST /2015-03-31/functions/scheduler-tick/invocations HTTP/1.1
Host: 127.0.0.1:8080
X-Amz-Invocation-Type: RequestResponse
X-Amz-Date: 20260304T050607Z
Authorization: AWS4-HMAC-SHA256 Credential=MILLRACEEXAMPLE12345/20260304/eu-west-1/lambda/aws4_request, SignedHeaders=host;x-amz-date;x-amz-invocation-type, Signature=26a93a0fb992cf5ac0879aab333594d00a865c4d5f5a32cb543d07ba793068c8
Content-Length: 32

`, `{"event_type": "scheduler_tick"}`, now},
		"botocore, an ARN and a query": {`POST /2015-03-31/functions/arn%3Aaws%3Alambda%3Alocal%3A000000000000%3Afunction%3Ascheduler-tick%3A%24LATEST/invocations?Qualifier=%24LATEST&b=a%20c HTTP/1.1
Host: 127.0.0.1:8080
X-Amz-Invocation-Type: Event
X-Amz-Log-Type: None
User-Agent: aws-cli
X-Amz-Date: 20260304T050607Z
Authorization: AWS4-HMAC-SHA256 Credential=MILLRACEEXAMPLE12345/20260304/us-east-1/lambda/aws4_request, SignedHeaders=host;x-amz-date;x-amz-invocation-type;x-amz-log-type, Signature=ce310bcb3304f00d7aafc3e2864256e2626d6f3c6f9ff843e710d579d0bc5fd8
Content-Length: 0

`, "", now},
		"curl --aws-sigv4": {`POST /2015-03-31/functions/scheduler-tick/invocations HTTP/1.1
Host: 127.0.0.1:28081
Authorization: AWS4-HMAC-SHA256 Credential=MILLRACEEXAMPLE12345/20261122/eu-west-1/lambda/aws4_request, SignedHeaders=content-type;host;x-amz-date, Signature=be739ead2f6eb85795eb7372d017aac65beadb9cb1f6792ad36cea1d446a8d41
X-Amz-Date: 20261122T061120Z
User-Agent: curl/7.88.1
Accept: */*
Content-Type: application/json
Content-Length: 32

`, `{"event_type": "scheduler_tick"}`, time.Date(2026, 11, 22, 6, 20, 0, 0, time.UTC)},
	} {
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(strings.ReplaceAll(c.request, "\n", "\r\n") + c.body)))
		require.NoError(t, err, name)
		assert.NoError(t, check(keys, r, c.body, c.at), name)
		assert.ErrorContains(t, check(keys, r, c.body+" ", c.at), "does not fit", name)
	}
}

const tick = `{"event_type": "scheduler_tick"}`

// sign returns a call signed by the SDK, after before has modified it.
func sign(t testing.TB, by localhost.Keys, service string, at time.Time, before func(*http.Request)) *http.Request {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1:8080/2015-03-31/functions/scheduler-tick/invocations?Qualifier=1", nil)
	r.Header.Set("X-Amz-Invocation-Type", "RequestResponse")
	r.ContentLength = int64(len(tick))
	if before != nil {
		before(r)
	}
	sum := sha256.Sum256([]byte(tick))
	hash := hex.EncodeToString(sum[:])
	if h := r.Header.Get("X-Amz-Content-Sha256"); h != "" {
		hash = h
	}
	require.NoError(t, v4.NewSigner().SignHTTP(t.Context(), aws.Credentials{AccessKeyID: by.AccessKeyID, SecretAccessKey: by.SecretAccessKey},
		r, hash, service, "eu-west-1", at))
	return r
}

func TestSignatures(t *testing.T) {
	t.Parallel()
	set := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	replace := func(old, by string) func(*http.Request) {
		return func(r *http.Request) {
			r.Header.Set("Authorization", strings.Replace(r.Header.Get("Authorization"), old, by, 1))
		}
	}
	other, unknown := keys, keys
	other.SecretAccessKey, unknown.AccessKeyID = "another-key", "MILLRACEEXAMPLE54321"
	const (
		fits, invalid, incomplete = "", "InvalidSignatureException", "IncompleteSignatureException"
		missing                   = "MissingAuthenticationTokenException"
	)
	for name, c := range map[string]struct {
		by            localhost.Keys
		service       string
		late          time.Duration
		before, after func(*http.Request)
		body, kind    string
	}{
		"right":              {keys, "lambda", 0, nil, nil, tick, fits},
		"15 minutes late":    {keys, "lambda", 15 * time.Minute, nil, nil, tick, fits},
		"15 minutes early":   {keys, "lambda", -15 * time.Minute, nil, nil, tick, fits},
		"hash in a header":   {keys, "lambda", 0, set("X-Amz-Content-Sha256", hashOf(tick)), nil, tick, fits},
		"unsigned header":    {keys, "lambda", 0, nil, set("Accept", "*/*"), tick, fits},
		"expired":            {keys, "lambda", 15*time.Minute + time.Second, nil, nil, tick, invalid},
		"of the future":      {keys, "lambda", -15*time.Minute - time.Second, nil, nil, tick, invalid},
		"other body":         {keys, "lambda", 0, nil, nil, `{"event_type": "scheduler_tick", "max_due": 1}`, invalid},
		"no body":            {keys, "lambda", 0, nil, nil, "", invalid},
		"other secret":       {other, "lambda", 0, nil, nil, tick, invalid},
		"other key":          {unknown, "lambda", 0, nil, nil, tick, "UnrecognizedClientException"},
		"other service":      {keys, "s3", 0, nil, nil, tick, incomplete},
		"other function":     {keys, "lambda", 0, nil, func(r *http.Request) { r.URL.Path = "/2015-03-31/functions/taskworker/invocations" }, tick, invalid},
		"other query":        {keys, "lambda", 0, nil, func(r *http.Request) { r.URL.RawQuery = "Qualifier=2" }, tick, invalid},
		"unreadable query":   {keys, "lambda", 0, nil, func(r *http.Request) { r.URL.RawQuery += "&a;b" }, tick, incomplete},
		"other method":       {keys, "lambda", 0, nil, func(r *http.Request) { r.Method = http.MethodPut }, tick, invalid},
		"other host":         {keys, "lambda", 0, nil, func(r *http.Request) { r.Host = "127.0.0.2:8080" }, tick, invalid},
		"other kind":         {keys, "lambda", 0, nil, set("X-Amz-Invocation-Type", "Event"), tick, invalid},
		"header beside":      {keys, "lambda", 0, nil, set("X-Amz-Client-Context", "e30="), tick, incomplete},
		"header missing":     {keys, "lambda", 0, nil, func(r *http.Request) { r.Header.Del("X-Amz-Invocation-Type") }, tick, incomplete},
		"unsigned payload":   {keys, "lambda", 0, set("X-Amz-Content-Sha256", "UNSIGNED-PAYLOAD"), nil, tick, invalid},
		"other time":         {keys, "lambda", 0, nil, set("X-Amz-Date", now.Add(time.Second).Format("20060102T150405Z")), tick, invalid},
		"other day":          {keys, "lambda", 0, nil, set("X-Amz-Date", now.Add(24*time.Hour).Format("20060102T150405Z")), tick, incomplete},
		"no time":            {keys, "lambda", 0, nil, func(r *http.Request) { r.Header.Del("X-Amz-Date") }, tick, incomplete},
		"no host signed":     {keys, "lambda", 0, nil, replace(";host;", ";"), tick, incomplete},
		"no time signed":     {keys, "lambda", 0, nil, replace(";x-amz-date;", ";"), tick, incomplete},
		"other region":       {keys, "lambda", 0, nil, replace("/eu-west-1/", "/us-east-1/"), tick, invalid},
		"no region":          {keys, "lambda", 0, nil, replace("/eu-west-1/", "//"), tick, incomplete},
		"no terminator":      {keys, "lambda", 0, nil, replace("aws4_request", "aws5_request"), tick, incomplete},
		"other algorithm":    {keys, "lambda", 0, nil, replace("AWS4-HMAC-SHA256", "AWS4-ECDSA-P256-SHA256"), tick, missing},
		"no signature":       {keys, "lambda", 0, nil, replace(", Signature=", ", Signature=0"), tick, incomplete},
		"one part":           {keys, "lambda", 0, nil, set("Authorization", "AWS4-HMAC-SHA256 Credential=MILLRACEEXAMPLE12345"), tick, incomplete},
		"two authorizations": {keys, "lambda", 0, nil, func(r *http.Request) { r.Header.Add("Authorization", r.Header.Get("Authorization")) }, tick, incomplete},
		"basic":              {keys, "lambda", 0, nil, set("Authorization", "Basic dXNlcjpwYXNz"), tick, missing},
	} {
		r := sign(t, c.by, c.service, now, c.before)
		if c.after != nil {
			c.after(r)
		}
		err := check(keys, r, c.body, now.Add(c.late))
		if c.kind == fits {
			assert.NoError(t, err, name)
			continue
		}
		var authErr *localhost.AuthError
		require.ErrorAs(t, err, &authErr, name)
		assert.Equal(t, c.kind, authErr.Kind, "%s: %s", name, authErr.Message)
		assert.NotContains(t, authErr.Message, keys.SecretAccessKey, name)
	}
	r := sign(t, localhost.Keys{SecretAccessKey: "x"}, "lambda", now, nil)
	assert.Error(t, check(localhost.Keys{}, r, tick, now), "who has no keys accepts none")
}

func hashOf(body string) string {
	sum := sha256.Sum256([]byte(body))
	return hex.EncodeToString(sum[:])
}

// FuzzAuthorization checks that only the signed Authorization header is
// accepted.
func FuzzAuthorization(f *testing.F) {
	signed := sign(f, keys, "lambda", now, nil)
	right := signed.Header.Get("Authorization")
	for _, seed := range []string{
		right, "Bearer x", "AWS4-HMAC-SHA256 ", strings.ReplaceAll(right, ", ", ","), right[:len(right)-1], right + "0",
		strings.Replace(right, "SignedHeaders=", "SignedHeaders=;", 1), strings.Replace(right, "Credential=", "Credential=/", 1),
	} {
		f.Add(seed)
	}
	signature := right[strings.LastIndex(right, "=")+1:]
	f.Fuzz(func(t *testing.T, header string) {
		r := signed.Clone(t.Context())
		r.Header.Set("Authorization", header)
		if check(keys, r, tick, now) == nil {
			scheme, _, _ := strings.Cut(header, " ")
			require.True(t, strings.Contains(header, signature) || strings.EqualFold(scheme, "Bearer"), "%q opens", header)
			require.False(t, strings.EqualFold(scheme, "Bearer") && !strings.Contains(header, keys.Secret), "%q opens", header)
		}
	})
}
