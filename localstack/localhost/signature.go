package localhost

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

const (
	algorithm  = "AWS4-HMAC-SHA256"
	service    = "lambda"
	dateHeader = "X-Amz-Date"
	dateLayout = "20060102T150405Z"
	hashHeader = "X-Amz-Content-Sha256"
)

// maxSkew is the tolerated difference between a signature's time and the
// server's.
const maxSkew = 15 * time.Minute

// signature is a parsed Authorization header of AWS Signature Version 4.
type signature struct {
	key, day, region, service string // of the credential and its scope
	headers                   []string
	value                     string // 64 hexadecimal digits
}

// checkSignature is Check for a signed request. Any region is accepted, because
// there is only this machine.
func (k Keys) checkSignature(r *http.Request, now time.Time) (verify func(body []byte) error, err error) {
	incomplete := func(format string, args ...any) error {
		return &AuthError{"IncompleteSignatureException", fmt.Sprintf(format, args...)}
	}
	headers := r.Header["Authorization"]
	s, fit := parseSignature(headers[0])
	if !fit || len(headers) != 1 {
		return nil, incomplete("Authorization is not one whole signature by %s", algorithm)
	}
	if k.AccessKeyID == "" || subtle.ConstantTimeCompare([]byte(s.key), []byte(k.AccessKeyID)) != 1 {
		return nil, &AuthError{"UnrecognizedClientException", "The access key is not the aws_access_key_id" + where}
	}
	if _, err := url.ParseQuery(r.URL.RawQuery); err != nil { // the signer would ignore unparsable parts
		return nil, incomplete("The query cannot be read")
	}
	if problem := s.covers(r); problem != "" {
		return nil, incomplete("%s", problem)
	}
	at, err := time.Parse(dateLayout, r.Header.Get(dateHeader))
	if err != nil || s.day != at.Format("20060102") || s.service != service {
		return nil, incomplete("The scope of the signature is not the day of %s, a region, and %s", dateHeader, service)
	}
	if at.Sub(now).Abs() > maxSkew { //guard:local/skew false
		return nil, &AuthError{"InvalidSignatureException",
			fmt.Sprintf("Signature expired: %s is more than 15 minutes from the server's time, %s", at.Format(dateLayout), now.UTC().Format(dateLayout))}
	}
	return func(body []byte) error { return k.verify(r, s, at, body) }, nil
}

// verify signs the request again and compares.
func (k Keys) verify(r *http.Request, s signature, at time.Time, body []byte) error {
	sum := sha256.Sum256(body)
	hash := hex.EncodeToString(sum[:])
	authErr := &AuthError{"InvalidSignatureException",
		"The signature does not fit the request: is its key the aws_secret_access_key" + where + "?"}
	if sent := r.Header.Get(hashHeader); sent != "" && sent != hash {
		return authErr
	}
	target := *r.URL
	again := &http.Request{Method: r.Method, URL: &target, Host: r.Host, Header: http.Header{}}
	for _, name := range s.headers {
		switch name {
		case "host":
		case "content-length":
			again.ContentLength = r.ContentLength
		default:
			name = http.CanonicalHeaderKey(name)
			again.Header[name] = slices.Clone(r.Header[name])
		}
	}
	keys := aws.Credentials{AccessKeyID: k.AccessKeyID, SecretAccessKey: k.SecretAccessKey}
	if err := v4.NewSigner().SignHTTP(context.Background(), keys, again, hash, s.service, s.region, at); err != nil {
		return authErr
	}
	made, _ := parseSignature(again.Header.Get("Authorization"))
	if subtle.ConstantTimeCompare([]byte(made.value), []byte(s.value)) != 1 { //guard:local/signature false
		return authErr
	}
	return nil
}

// covers returns a required part that the signature does not cover, or "": the
// host, the time, and every header that the service uses.
func (s signature) covers(r *http.Request) string {
	for _, name := range []string{"host", strings.ToLower(dateHeader)} {
		if !slices.Contains(s.headers, name) {
			return "The signature does not cover the header " + name
		}
	}
	for name := range r.Header {
		if name = strings.ToLower(name); strings.HasPrefix(name, "x-amz-") && !slices.Contains(s.headers, name) {
			return "The signature does not cover the header " + name
		}
	}
	for _, name := range s.headers {
		if name != "host" && name != "content-length" && len(r.Header[http.CanonicalHeaderKey(name)]) == 0 {
			return "The signature covers a header that is missing"
		}
	}
	return ""
}

// parseSignature parses an Authorization header. fit is false if it has another
// algorithm or lacks a part.
func parseSignature(header string) (s signature, fit bool) {
	rest, found := strings.CutPrefix(header, algorithm+" ")
	parts := strings.Split(rest, ",")
	if !found || len(parts) != 3 {
		return s, false
	}
	fields := map[string]string{}
	for _, part := range parts {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		fields[name] = value
	}
	scope := strings.Split(fields["Credential"], "/")
	if len(scope) != 5 || slices.Contains(scope, "") || scope[4] != "aws4_request" {
		return s, false
	}
	s = signature{
		key: scope[0], day: scope[1], region: scope[2], service: scope[3],
		headers: strings.Split(fields["SignedHeaders"], ";"), value: fields["Signature"],
	}
	raw, err := hex.DecodeString(s.value)
	return s, err == nil && len(raw) == sha256.Size
}
