package attack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
)

// fuzzObjects sends requests to the object store: without a credential, with
// forged ones, and with modified presigned URLs.
func fuzzObjects(a *attacker) {
	base, part := a.Ours.objects()
	bucket := "/" + strings.Split(part.Path, "/")[1]
	web := newHTTP(answerPatience)
	a.each(8, size(400, 12_000), func(rng *rand.Rand, _ int) {
		r := a.storeRequest(rng, bucket)
		if rng.IntN(3) == 0 {
			a.tamper(rng, r, part)
		}
		req, err := r.request(base)
		if err != nil {
			return // Go's client cannot send it
		}
		res, err := web.Do(req)
		if err != nil {
			a.lost(err)
			return
		}
		body, _ := io.ReadAll(res.Body)
		res.Body.Close()
		a.answer(fmt.Sprint(res.StatusCode))
		switch {
		case res.StatusCode == http.StatusNotImplemented, res.StatusCode == http.StatusServiceUnavailable:
		case res.StatusCode >= 500:
			a.problem("%s: %d: %.300s", r, res.StatusCode, body)
		case res.StatusCode < 300 && r.method != http.MethodOptions:
			a.problem("%s: nobody's request is answered %d: %.300s", r, res.StatusCode, body)
		}
		for _, e := range []*estate{a.Ours, a.Theirs} {
			if bytes.Contains(body, []byte(e.Canary)) {
				a.problem("%s: the answer holds what is in the store: %.300s", r, body)
			}
		}
	})
}

// storeRequest draws a request without a valid credential.
func (a *attacker) storeRequest(rng *rand.Rand, bucket string) *request {
	keys := []string{
		"", "/", bucket, bucket + "/", bucket + "/" + a.Theirs.ArtifactKey, bucket + "/" + strings.TrimPrefix(a.Theirs.ArtifactURI, "s3:/"+bucket+"/"), bucket + "/../secrets.json",
		bucket + "/%2e%2e/%2e%2e/credentials.json", bucket + "/..%2fsecrets.json", bucket + "/a%00b", bucket + "/" + strings.Repeat("k", 1100), bucket + "/" + strings.Repeat("d/", 400),
		bucket + "//x", bucket + "/%ff", "/UPPER_case", "/" + strings.Repeat("b", 300), "/.sgwtmp/x", bucket + "/.sgwtmp/multipart/x", "/%2e%2e", "/a/../" + bucket + "/x", bucket + "/\\..\\x",
	}
	r := &request{method: pick(rng, []string{"GET", "GET", "PUT", "POST", "DELETE", "HEAD", "OPTIONS", "PATCH", "COPY"}), path: pick(rng, keys), query: url.Values{}, header: http.Header{}}
	for range rng.IntN(3) {
		r.query.Set(pick(rng, []string{
			"list-type", "uploads", "uploadId", "partNumber", "acl", "policy", "versioning", "location", "tagging", "lifecycle", "delete", "restore", "select", "attributes", "max-keys", "prefix",
			"X-Amz-Signature", "X-Amz-Algorithm", "X-Amz-Credential", "X-Amz-Expires", "X-Amz-Date", "AWSAccessKeyId", "Signature", "x-id", "versionId", "object-lock", "cors", "events", "torrent",
		}), pick(rng, []string{"", "1", "2", "-1", "99999999999", "../..", "AWS4-HMAC-SHA256", "\x00", a.Theirs.UploadID, strings.Repeat("v", 5000)}))
	}
	for range rng.IntN(3) {
		h := pick(rng, [][2]string{
			{"Authorization", "AWS4-HMAC-SHA256 Credential=x/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=" + strings.Repeat("0", 64)}, {"Authorization", "AWS x:y"}, {"Authorization", "AWS4-HMAC-SHA256"},
			{"Authorization", "Bearer " + a.Ours.Owner}, {"Authorization", "AWS4-HMAC-SHA256 Credential=" + a.Credentials.AWSAccessKeyID + "/20260101/us-east-1/s3/aws4_request,SignedHeaders=host,Signature=aa"}, {"X-Amz-Date", "20260101T000000Z"},
			{"X-Amz-Date", "never"}, {"X-Amz-Content-Sha256", "UNSIGNED-PAYLOAD"}, {"X-Amz-Content-Sha256", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"}, {"X-Amz-Content-Sha256", "STREAMING-UNSIGNED-PAYLOAD-TRAILER"},
			{"X-Amz-Decoded-Content-Length", "-5"}, {"X-Amz-Decoded-Content-Length", "99999999999999999999"}, {"X-Amz-Copy-Source", bucket + "/" + a.Theirs.ArtifactKey}, {"X-Amz-Copy-Source", "/../.."}, {"Range", "bytes=5-1,-0"},
			{"Content-Md5", "x"}, {"X-Amz-Checksum-Crc32", "x"}, {"X-Amz-Trailer", "x-amz-checksum-crc32"}, {"X-Amz-Meta-X", "\xff"}, {"Expect", "100-continue"}, {"Content-Encoding", "aws-chunked"}, {"X-Amz-Acl", "public-read-write"},
		})
		r.header.Add(h[0], h[1])
	}
	if r.method == "PUT" || r.method == "POST" || r.method == "PATCH" {
		r.hasBody, r.value = true, raw(pick(rng, xmls))
		r.unknown = rng.IntN(3) == 0
		if rng.IntN(3) == 0 {
			r.garble = rng
		}
	}
	return r
}

var xmls = []string{
	"", "x", "<", "<a>", "<Delete><Object><Key>x</Key></Object></Delete>", "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>x</ETag></Part></CompleteMultipartUpload>",
	"<CompleteMultipartUpload>" + strings.Repeat("<Part><PartNumber>-1</PartNumber></Part>", 2000) + "</CompleteMultipartUpload>",
	`<!DOCTYPE l [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;"><!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;">]><Delete>&c;</Delete>`,
	`<!DOCTYPE l [<!ENTITY f SYSTEM "file:///etc/passwd">]><Delete><Object><Key>&f;</Key></Object></Delete>`, strings.Repeat("<a>", 20_000), "5;chunk-signature=0\r\nhello\r\n0;chunk-signature=0\r\n\r\n",
}

// tamper turns a request into a presigned one with something changed.
func (a *attacker) tamper(rng *rand.Rand, r *request, part *url.URL) {
	r.method, r.query = http.MethodPut, part.Query()
	path := part.EscapedPath()
	r.header, r.value, r.hasBody, r.unknown, r.garble = http.Header{}, raw(`"12345678"`), true, false, nil
	switch rng.IntN(10) {
	case 0:
		path = strings.Replace(path, a.Ours.ArtifactKey, a.Theirs.ArtifactKey, 1)
	case 1:
		r.query.Set("uploadId", a.Theirs.UploadID)
	case 2:
		r.query.Set("partNumber", pick(rng, []string{"0", "2", "-1", "10001", "x", "99999999999999999999"}))
	case 3:
		r.query.Set("X-Amz-Expires", pick(rng, []string{"604800", "-1", "0", "x"}))
	case 4:
		name := pick(rng, []string{"X-Amz-Signature", "X-Amz-Credential", "X-Amz-Date", "X-Amz-Algorithm", "X-Amz-SignedHeaders", "X-Amz-Expires"})
		r.query.Del(name)
	case 5:
		name := pick(rng, []string{"X-Amz-Signature", "X-Amz-Credential", "X-Amz-Date", "X-Amz-Algorithm"})
		r.query.Set(name, flip(rng, r.query.Get(name)))
	case 6:
		r.method = pick(rng, []string{"GET", "DELETE", "POST", "HEAD", "PATCH"})
	case 7:
		path += pick(rng, []string{"/..", "/x", "%00", "/../../secrets.json", "."})
	case 8:
		r.query.Add(pick(rng, []string{"uploads", "delete", "acl", "partNumber", "response-content-type"}), "1")
	default:
		r.value = raw(strings.Repeat("x", 1+partSize+rng.IntN(1000)))
		r.unknown = rng.IntN(2) == 0
	}
	r.path = path
}

// put sends a body of n zeros to a presigned URL. It returns the response, and
// how much of the body was accepted.
func put(ctx context.Context, web *http.Client, address string, n int64, told bool) (status string, taken int64) {
	body := &zeros{left: n}
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, address, body)
	if err != nil {
		return err.Error(), 0
	}
	req.ContentLength = -1
	if told {
		req.ContentLength = n
	}
	res, err := web.Do(req)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "left", n - body.left
	case err != nil:
		return "closed", n - body.left
	}
	res.Body.Close()
	return fmt.Sprint(res.StatusCode), n - body.left
}

// zeros reads as left zeros.
type zeros struct{ left int64 }

func (z *zeros) Read(p []byte) (int, error) {
	if z.left == 0 {
		return 0, io.EOF
	}
	n := int(min(int64(len(p)), z.left))
	clear(p[:n])
	z.left -= int64(n)
	return n, nil
}
