package s3

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"strconv"
	"sync"
	"time"
)

// signer makes presigned URLs by itself where that is simple: for a server with
// a fixed address and static credentials, the bucket in the path. They are the
// SDK's to the byte, at a thirtieth of the work; every Python task of the
// embedded server needs two.
type signer struct {
	base, host        string // scheme and host; host
	bucket            string // escaped
	region            string
	accessKey, secret string
	now               func() time.Time

	mu  sync.Mutex
	day string // of key
	key []byte
}

// newSigner returns nil where the SDK is needed.
func newSigner(c Config) *signer {
	endpoint := c.PublicEndpoint
	if endpoint == "" {
		endpoint = c.Endpoint
	}
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" || u.Path != "" || u.RawQuery != "" || u.User != nil || u.Port() == "" || u.Port() == "80" || u.Port() == "443" {
		return nil
	}
	if !c.PathStyle || c.AccessKey == "" || c.SecretKey == "" {
		return nil
	}
	region := c.Region
	if region == "" {
		region = "us-east-1"
	}
	return &signer{
		base: u.Scheme + "://" + u.Host, host: u.Host, bucket: string(appendEscaped(nil, c.Bucket, false)),
		region: region, accessKey: c.AccessKey, secret: c.SecretKey, now: time.Now,
	}
}

// url signs an operation on an object, for whoever has the URL within ttl.
func (s *signer) url(method, operation, key string, ttl time.Duration) string {
	now := s.now().UTC()
	date := now.Format("20060102T150405Z")
	day := date[:8]
	scope := day + "/" + s.region + "/s3/aws4_request"

	path := append(make([]byte, 0, 512), '/')
	path = append(append(path, s.bucket...), '/')
	path = appendEscaped(path, key, true)
	query := append(make([]byte, 0, 512), "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential="...)
	query = appendEscaped(query, s.accessKey+"/"+scope, false)
	query = append(append(query, "&X-Amz-Date="...), date...)
	query = strconv.AppendInt(append(query, "&X-Amz-Expires="...), int64(ttl/time.Second), 10)
	query = append(append(query, "&X-Amz-SignedHeaders=host&x-id="...), operation...)

	canonical := sha256.New()
	for _, part := range []string{method, "\n", string(path), "\n", string(query), "\nhost:", s.host, "\n\nhost\nUNSIGNED-PAYLOAD"} {
		canonical.Write([]byte(part))
	}
	toSign := "AWS4-HMAC-SHA256\n" + date + "\n" + scope + "\n" + hex.EncodeToString(canonical.Sum(nil))
	signature := hex.EncodeToString(mac(s.dayKey(day), toSign))
	return s.base + string(path) + "?" + string(query) + "&X-Amz-Signature=" + signature
}

// dayKey is the key of a day.
func (s *signer) dayKey(day string) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.day != day {
		key := mac([]byte("AWS4"+s.secret), day)
		for _, part := range []string{s.region, "s3", "aws4_request"} {
			key = mac(key, part)
		}
		s.day, s.key = day, key
	}
	return s.key
}

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

// appendEscaped escapes as signatures want it.
func appendEscaped(b []byte, text string, slashes bool) []byte {
	const digits = "0123456789ABCDEF"
	for i := range len(text) {
		switch c := text[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_', c == '.', c == '~', c == '/' && slashes:
			b = append(b, c)
		default:
			b = append(b, '%', digits[c>>4], digits[c&15])
		}
	}
	return b
}
