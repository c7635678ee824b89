package attack

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"millrace/functions/catalog"
)

const invokePath = "/2015-03-31/functions/"

// fuzzInvoke calls all functions: with credentials that are wrong, which do
// nothing, and with events that are, which do no harm.
func fuzzInvoke(a *attacker) {
	var names []string
	for _, spec := range catalog.All() {
		names = append(names, spec.Name)
	}
	names = append(names, "none", "../health", "arn:aws:lambda:x:1:function:health", "health:1", "", "%00")
	known, err := sampleEvents()
	if err != nil {
		a.problem("%v", err)
		return
	}
	web := newHTTP(answerPatience)
	a.each(8, size(400, 8000), func(rng *rand.Rand, _ int) {
		r := &request{method: http.MethodPost, path: invokePath + pick(rng, names) + "/invocations", query: url.Values{}, header: http.Header{}, value: a.event(rng, known), hasBody: true}
		r.header.Set("X-Amz-Invocation-Type", pick(rng, []string{"RequestResponse", "RequestResponse", "", "Event", "DryRun", "Nonsense"}))
		if rng.IntN(6) == 0 {
			r.garble = rng
		}
		right := rng.IntN(2) == 0
		req, err := r.request(a.Credentials.BaseURL)
		if err != nil {
			return // not to be sent by Go's client
		}
		if right {
			req.Header.Set("Authorization", "Bearer "+a.Credentials.LocalSecret)
		} else if err := a.forge(rng, req, r.body()); err != nil {
			a.problem("%v", err)
			return
		}
		began := time.Now()
		res, err := web.Do(req)
		if err != nil {
			a.lost(err)
			if time.Since(began) > answerPatience/2 {
				a.problem("%s: no answer within %s", r, time.Since(began))
			}
			return
		}
		body, _ := io.ReadAll(res.Body)
		res.Body.Close()
		failed := ""
		if res.Header.Get("X-Amz-Function-Error") != "" {
			failed = " with an error"
		}
		a.answer(fmt.Sprint(res.StatusCode, failed))
		switch {
		case res.StatusCode >= 500, strings.Contains(string(body), "runtime error"):
			a.problem("%s: %d: %.300s", r, res.StatusCode, body)
		case !right && res.StatusCode < 300:
			a.problem("%s with %v: nobody's call is answered %d: %.300s", r, req.Header["Authorization"], res.StatusCode, body)
		case res.StatusCode >= 400 && !json.Valid(body) && !strings.Contains(r.path, "..") && !strings.Contains(r.path, "functions//"):
			a.problem("%s: %d in no shape: %.300s", r, res.StatusCode, body)
		}
	})
}

// samples are where the project keeps events, one of each that functions take.
const samples = "../../../events/samples/*.json"

func sampleEvents() (found []any, err error) {
	files, err := filepath.Glob(samples)
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("no samples of events: %w", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var event any
		if err := json.Unmarshal(data, &event); err != nil {
			return nil, err
		}
		found = append(found, event)
	}
	return append(found, object{}, object{"Records": []any{object{"body": "{}", "messageId": "1", "eventSource": "aws:sqs"}}}), nil
}

// event draws an event: one of the samples, often of a run that there is, changed
// in places, within the messages that it holds, too.
func (a *attacker) event(rng *rand.Rand, known []any) any {
	out := pick(rng, known)
	records, _ := out.(object)["Records"].([]any)
	if len(records) > 0 && rng.IntN(3) > 0 {
		record := maps.Clone(records[0].(object))
		var message object
		if json.Unmarshal([]byte(fmt.Sprint(record["body"])), &message) == nil && message != nil {
			if rng.IntN(2) == 0 {
				message["org_id"], message["run_id"] = a.Ours.Org, a.Ours.Run
			}
			var b bytes.Buffer
			encode(&b, mutate(rng, message))
			record["body"] = b.String()
		}
		out = object{"Records": []any{record}}
	}
	for range rng.IntN(3) {
		out = mutate(rng, out)
	}
	return out
}

// forge gives a call a credential that is not the right one.
func (a *attacker) forge(rng *rand.Rand, req *http.Request, body []byte) error {
	h := req.Header
	if rng.IntN(2) == 0 {
		if v := pick(rng, []string{
			"", "Bearer ", "Bearer " + a.Ours.Owner, "Bearer " + flip(rng, a.Credentials.LocalSecret), "Basic " + a.Credentials.LocalSecret, "Bearer " + a.Credentials.LocalSecret + "x",
			"AWS4-HMAC-SHA256", "AWS4-HMAC-SHA256 Credential=", "AWS4-HMAC-SHA256 Credential=x/y/z, SignedHeaders=, Signature=", "Bearer\x01" + a.Credentials.LocalSecret,
		}); v != "" {
			h.Set("Authorization", v)
		}
		return nil
	}
	sum := sha256.Sum256(body)
	hash := hex.EncodeToString(sum[:])
	keys := aws.Credentials{AccessKeyID: a.Credentials.AWSAccessKeyID, SecretAccessKey: a.Credentials.AWSSecretAccessKey}
	at, service := time.Now(), "lambda"
	broken := rng.IntN(7)
	switch broken {
	case 0:
		keys.SecretAccessKey += "x"
	case 1:
		keys.AccessKeyID = "MILLRACE00000000"
	case 2:
		at = at.Add(-time.Hour)
	case 3:
		service = "s3"
	case 4:
		hash = strings.Repeat("0", 64)
		h.Set("X-Amz-Content-Sha256", hash)
	}
	if err := v4.NewSigner().SignHTTP(req.Context(), keys, req, hash, service, "us-east-1", at); err != nil {
		return err
	}
	switch broken {
	case 5:
		h.Set("Authorization", h.Get("Authorization")[:len(h.Get("Authorization"))-1])
	case 6:
		req.Body, req.ContentLength = io.NopCloser(bytes.NewReader([]byte(`{"other": 1}`))), 12
		req.GetBody = nil
	}
	return nil
}

// fuzzLocal asks for the server's own routes as tasks and proxies could.
func fuzzLocal(a *attacker) {
	web := newHTTP(answerPatience)
	a.each(8, size(300, 6000), func(rng *rand.Rand, i int) {
		path := pick(rng, []string{"/_local/sign-in", "/_local/sign-in/", "/_local/metrics", "/_local/backup", "/_local/members", "/_local/", "/_local/x", "/_local//sign-in", "/_local/../_local/sign-in",
			"/%5flocal/sign-in", "//_local/sign-in", "/x/../_local/sign-in", "/_local/sign-in%00", "/_local/sign-in;x", "/_LOCAL/sign-in"})
		body := pick(rng, []any{object{"email": a.Theirs.Email}, object{"org_id": a.Theirs.Org, "email": a.Theirs.Email, "suspended": true}, object{}, object{"email": nasty[rng.IntN(len(nasty))]}})
		r := &request{method: pick(rng, []string{"POST", "POST", "GET", "PUT", "DELETE", "HEAD", "OPTIONS"}), path: path, query: url.Values{}, header: http.Header{}, value: body, hasBody: true}
		right := i%6 == 0 && a.bare(r) // with the secret bodies alone are wrong
		if right {
			r.header.Set("Authorization", "Bearer "+a.Credentials.LocalSecret)
		} else if v := pick(rng, []string{"", "Bearer ", "Bearer " + a.Ours.Owner, "Bearer " + flip(rng, a.Credentials.LocalSecret), "Basic " + a.Credentials.LocalSecret, a.Credentials.LocalSecret}); v != "" {
			r.header.Set("Authorization", v)
		}
		for range rng.IntN(4) {
			h := pick(rng, [][2]string{{"X-Forwarded-For", ""}, {"X-Forwarded-For", "127.0.0.1"}, {"X-Real-Ip", "127.0.0.1"}, {"Via", "1.1 x"}, {"Forwarded", "for=127.0.0.1"}, {"Host", "localhost"}, {"Host", "evil.example"},
				{"Origin", "null"}, {"Origin", "http://localhost"}, {"Sec-Fetch-Site", "same-origin"}, {"Cookie", "local_secret=" + a.Credentials.LocalSecret}, {"X-Local-Secret", a.Credentials.LocalSecret}})
			r.header.Add(h[0], h[1])
		}
		if rng.IntN(3) == 0 {
			r.query.Set(pick(rng, []string{"token", "access_token", "local_secret"}), "x")
		}
		if rng.IntN(4) == 0 {
			r.garble = rng
		}
		req, err := r.request(a.Credentials.BaseURL)
		if err != nil {
			return // not to be sent by Go's client
		}
		res, err := web.Do(req)
		if err != nil {
			a.lost(err)
			return
		}
		answer, _ := io.ReadAll(res.Body)
		res.Body.Close()
		a.answer(fmt.Sprint(res.StatusCode))
		switch {
		case res.StatusCode >= 500:
			a.problem("%s: %d: %.300s", r, res.StatusCode, answer)
		case !right && res.StatusCode < 300, strings.Contains(string(answer), "id_token") && !right:
			a.problem("%s: nobody is let in with %d: %.300s", r, res.StatusCode, answer)
		case right && (res.StatusCode == http.StatusNotFound || res.StatusCode == http.StatusMethodNotAllowed): // Go's own words
		case res.StatusCode >= 400 && r.method != http.MethodHead && !bytes.Contains(answer, []byte(`"detail"`)):
			a.problem("%s: %d in no shape: %.300s", r, res.StatusCode, answer)
		}
	})
}

// bare makes a request of the right owner one that changes nothing.
func (*attacker) bare(r *request) bool {
	if r.path != "/_local/sign-in" && r.path != "/_local/members" && r.path != "/_local/metrics" {
		return false
	}
	if r.path == "/_local/members" {
		r.value = object{"org_id": "nobody", "email": "nobody@example.com", "suspended": true}
	}
	return true
}
