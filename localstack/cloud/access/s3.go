package access

import (
	"encoding/xml"
	"net/http"
	"net/url"
	"strings"
)

// own are the query parameters that select no other operation: those of a
// presigned URL, of the answer, and of lists.
var own = []string{
	"x-id", "x-amz-*", "response-*", "list-type", "prefix", "delimiter", "max-keys", "continuation-token", "start-after", "encoding-type",
	"fetch-owner", "key-marker", "part-number-marker", "max-parts", "partnumber", "uploadid", "uploads", "delete", "versionid",
}

// guarded are the headers of a write that need a permission of their own.
var guarded = map[string]string{
	"X-Amz-Tagging": "s3:PutObjectTagging", "X-Amz-Acl": "s3:PutObjectAcl", "X-Amz-Object-Lock-Mode": "s3:PutObjectRetention",
	"X-Amz-Object-Lock-Retain-Until-Date": "s3:PutObjectRetention", "X-Amz-Object-Lock-Legal-Hold": "s3:PutObjectLegalHold",
	"X-Amz-Bypass-Governance-Retention": "s3:BypassGovernanceRetention",
}

// s3 reads requests to buckets, with the bucket in the path.
func (r *request) s3() ([]Call, error) {
	bucket, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	query := r.URL.Query()
	for name := range query {
		if !anyLike(own, strings.ToLower(name)) {
			return nil, errUnknown
		}
	}
	arn := "arn:" + r.Partition + ":s3:::" + bucket
	switch {
	case bucket == "":
		return nil, errUnknown
	case key == "":
		return r.bucket(arn, query)
	}
	action, known := objectAction(r.Method, query)
	if !known {
		return nil, errUnknown
	}
	calls := []Call{{Action: action, Resource: arn + "/" + key, Parts: query.Has("uploadId") || query.Has("uploads")}}
	for header, action := range guarded {
		if r.Header.Get(header) != "" {
			calls = append(calls, Call{Action: action, Resource: arn + "/" + key})
		}
	}
	if from := r.Header.Get("X-Amz-Copy-Source"); from != "" {
		from, err := url.PathUnescape(from)
		if err != nil {
			return nil, err
		}
		path, version, _ := strings.Cut(strings.TrimPrefix(from, "/"), "?")
		read := "s3:GetObject"
		if version != "" {
			read = "s3:GetObjectVersion"
		}
		calls = append(calls, Call{Action: read, Resource: "arn:" + r.Partition + ":s3:::" + path})
	}
	return calls, nil
}

// objectAction returns the action of a request for an object.
func objectAction(method string, query url.Values) (action string, known bool) {
	upload, version := query.Has("uploadId"), query.Has("versionId")
	switch {
	case method == http.MethodGet && upload:
		return "s3:ListMultipartUploadParts", true
	case method == http.MethodDelete && upload:
		return "s3:AbortMultipartUpload", true
	case (method == http.MethodGet || method == http.MethodHead) && version:
		return "s3:GetObjectVersion", true
	case method == http.MethodGet, method == http.MethodHead:
		return "s3:GetObject", true
	case method == http.MethodDelete && version:
		return "s3:DeleteObjectVersion", true
	case method == http.MethodDelete:
		return "s3:DeleteObject", true
	case method == http.MethodPut, method == http.MethodPost && (upload || query.Has("uploads")):
		return "s3:PutObject", true
	}
	return "", false
}

// bucket reads requests to a bucket as a whole.
func (r *request) bucket(arn string, query url.Values) ([]Call, error) {
	switch {
	case r.Method == http.MethodHead, r.Method == http.MethodGet && query.Get("list-type") == "2":
		return []Call{{Action: "s3:ListBucket", Resource: arn, Context: Context{"s3:prefix": {query.Get("prefix")}}}}, nil
	case r.Method == http.MethodPost && query.Has("delete"):
		var in struct {
			Object []struct{ Key, VersionId string }
		}
		if err := xml.Unmarshal(r.body, &in); err != nil {
			return nil, err
		}
		var calls []Call
		for _, object := range in.Object {
			action := "s3:DeleteObject"
			if object.VersionId != "" {
				action = "s3:DeleteObjectVersion"
			}
			calls = append(calls, Call{Action: action, Resource: arn + "/" + object.Key})
		}
		return calls, nil
	}
	return nil, errUnknown
}
