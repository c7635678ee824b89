package httpapi

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// File is a response other than the framework's JSON that is the same for all
// callers: a page, a script, a document. It has an ETag; a conditional request
// with that ETag is answered with 304.
//
// Links in a file are relative to its path, so a path with a trailing slash is
// redirected to the one without. A function with a File streams its responses:
// API Gateway passes on a buffered response only if it is text.
type File struct {
	Type   string      // media type
	Data   []byte      // the content, unless Packed is set
	Packed *Packed     // the content in gzip
	Cache  string      // Cache-Control; empty: cached and revalidated by ETag
	Header http.Header // further headers
}

// Redirect is a redirection. The operation's Status must be 302, 303, 307 or
// 308.
type Redirect struct {
	Location string // a URL, or one relative to the request's path
}

// responder is a response that writes itself.
type responder interface {
	respond(w http.ResponseWriter, r *http.Request, status int) error
}

// respond sends the file, a range of it, or 304.
func (f File) respond(w http.ResponseWriter, r *http.Request, _ int) error {
	if callFrom(r.Context()).slash {
		redirectWithoutSlash(w, r)
		return nil
	}
	data, header := f.Data, w.Header()
	var tag string
	switch {
	case f.Packed == nil:
		tag = tagOf(data)
	case strings.Contains(r.Header.Get("Accept-Encoding"), "gzip"):
		data, tag = f.Packed.data, f.Packed.tag()+"-gzip"
		header.Set("Content-Encoding", "gzip")
	default:
		var err error
		if data, err = f.Packed.plain(); err != nil {
			return fmt.Errorf("file of type %s: %w", f.Type, err)
		}
		tag = f.Packed.tag()
	}
	if f.Packed != nil {
		header.Set("Vary", "Accept-Encoding")
	}
	for name, values := range f.Header {
		header[name] = values
	}
	header.Set("Content-Type", f.Type)
	header.Set("ETag", `"`+tag+`"`)
	header.Set("Cache-Control", "public, no-cache")
	if f.Cache != "" {
		header.Set("Cache-Control", f.Cache)
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
	return nil
}

// respond sends the redirection.
func (d Redirect) respond(w http.ResponseWriter, _ *http.Request, status int) error {
	w.Header().Set("Location", d.Location)
	w.WriteHeader(status)
	return nil
}

// Packed is the content of a [File] in gzip. It is decompressed once, for
// clients that do not accept gzip.
type Packed struct {
	data  []byte
	tag   func() string
	plain func() ([]byte, error)
}

// Pack compresses content.
func Pack(plain []byte) *Packed {
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err == nil {
		_, err = w.Write(plain)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		panic("httpapi: " + err.Error()) // writing to a buffer does not fail
	}
	return InGzip(out.Bytes())
}

// InGzip returns content that is already in gzip.
func InGzip(data []byte) *Packed {
	return &Packed{
		data: data,
		tag:  sync.OnceValue(func() string { return tagOf(data) }),
		plain: sync.OnceValues(func() ([]byte, error) {
			r, err := gzip.NewReader(bytes.NewReader(data))
			if err != nil {
				return nil, err
			}
			return io.ReadAll(r)
		}),
	}
}

// tagOf returns the ETag of content.
func tagOf(data []byte) string {
	sum := sha256.Sum256(data)
	return base64.RawURLEncoding.EncodeToString(sum[:15])
}
