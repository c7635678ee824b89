package attack

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// fuzzRaw sends to both listeners what an HTTP client would not.
func fuzzRaw(a *attacker) {
	api := hostOf(a.Credentials.BaseURL)
	store, _ := a.Ours.objects()
	a.each(8, size(200, 4000), func(rng *rand.Rand, i int) {
		address := api
		if i%4 == 0 {
			address = hostOf(store)
		}
		var sent strings.Builder
		for range 1 + rng.IntN(2) {
			sent.WriteString(a.rawRequest(rng, address))
		}
		a.sendRaw(address, sent.String(), address == api)
	})
}

func hostOf(base string) string {
	u, err := url.Parse(base)
	if err != nil {
		panic(err) // it comes from the server
	}
	return u.Host
}

// rawRequest draws a request that is mostly malformed.
func (a *attacker) rawRequest(rng *rand.Rand, host string) string {
	line := pick(rng, []string{
		"GET /me HTTP/1.1", "GET  /me HTTP/1.1", "GET /me HTTP/9.9", "GET /me", "\x00\x01\x02", "PRI * HTTP/2.0", "GET http://evil.example/me HTTP/1.1", "GET /me\x00 HTTP/1.1",
		"HEAD /me HTTP/1.1", "CONNECT 127.0.0.1:1 HTTP/1.1", "OPTIONS * HTTP/1.1", "POST /runs HTTP/1.1", "POST /orgs HTTP/1.0", "GET /%zz HTTP/1.1", "GET /flows/../me HTTP/1.1", "GET ///me HTTP/1.1",
		"G\x7fT /me HTTP/1.1", "GET /" + strings.Repeat("a", 70_000) + " HTTP/1.1", "GET /flows?limit=%00&limit=1 HTTP/1.1", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "",
	})
	var b strings.Builder
	b.WriteString(line + "\r\n")
	if rng.IntN(10) > 0 {
		b.WriteString("Host: " + host + "\r\n")
	}
	if rng.IntN(2) == 0 {
		b.WriteString("Authorization: Bearer " + a.Ours.Owner + "\r\n")
	}
	for range rng.IntN(4) {
		b.WriteString(pick(rng, []string{
			"Content-Length: 5\r\n", "Content-Length: -1\r\n", "Content-Length: 99999999999999999999\r\n", "Content-Length: 5\r\nContent-Length: 6\r\n", "Transfer-Encoding: chunked\r\n",
			"Transfer-Encoding: chunked, chunked\r\n", "Transfer-Encoding: xchunked\r\n", "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "Host: two\r\n", "X: a\r\n b\r\n", "X : a\r\n", ": a\r\n", "X\x00: a\r\n",
			"X: a\rY: b\r\n", "X: \xff\xfe\r\n", "X: a\nY: b\n", "Expect: 100-continue\r\n", "Connection: close, keep-alive\r\n", "Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\nConnection: Upgrade, HTTP2-Settings\r\n",
			"Trailer: Authorization\r\n", strings.Repeat("A: b\r\n", 3000), "Cookie: " + strings.Repeat("c", 70_000) + "\r\n",
		}))
	}
	b.WriteString("\r\n")
	b.WriteString(pick(rng, []string{"", "", "hello", "5\r\nhello\r\n0\r\n\r\n", "ffffffffffffffff\r\n", "5;x=\"\r\n\"\r\nhello\r\n0\r\nAuthorization: Bearer x\r\n\r\n", "-1\r\n", "0\r\n\r\nGET /runs HTTP/1.1\r\nHost: x\r\n\r\n"}))
	return b.String()
}

// sendRaw sends bytes and reads the response. The API answers requests; Go's
// server itself answers malformed ones.
func (a *attacker) sendRaw(address, sent string, api bool) {
	conn, err := net.DialTimeout("tcp", address, 10*time.Second)
	if err != nil {
		a.lost(err)
		return
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(answerPatience)) // a connection has deadlines
	if _, err := io.WriteString(conn, sent); err == nil {
		_ = conn.(*net.TCPConn).CloseWrite() // the server may have closed it
	}
	data, err := io.ReadAll(conn)
	if err != nil && len(data) == 0 {
		a.lost(err)
		return
	}
	if len(data) == 0 {
		a.answer("closed")
		return
	}
	in := bufio.NewReader(bytes.NewReader(data))
	for {
		if _, err := in.Peek(1); err != nil {
			return
		}
		if strings.HasPrefix(sent, "HEAD") {
			a.answer("HEAD")
			return // a response to HEAD has a length, but no body
		}
		res, err := http.ReadResponse(in, nil)
		if err != nil {
			a.problem("%.300q: answered by no HTTP: %.100q: %v", sent, data, err)
			return
		}
		body, _ := io.ReadAll(res.Body)
		res.Body.Close()
		a.answer(fmt.Sprint(res.StatusCode))
		switch {
		case api && !strings.Contains(sent, "OPTIONS * "): // Go answers that
			a.judge(fmt.Sprintf("%.300q", sent), res, body)
		case res.StatusCode >= 500 && !slices.Contains(refusals, res.StatusCode) && res.StatusCode != http.StatusServiceUnavailable:
			a.problem("%.300q: %d: %.200s", sent, res.StatusCode, body)
		}
		if bytes.Contains(body, []byte(a.Theirs.Canary)) {
			a.problem("%.300q: the answer holds what is another workspace's: %.200s", sent, body)
		}
	}
}
