// Package ticket makes and checks the bearer token with which the sandbox acts
// for one attempt of one task. Until the attempt's time is over, the token
// allows it to post the attempt's log, to ask whether the attempt is to stop,
// to save files next to the attempt's output and to open files of its
// workspace, and nothing else.
package ticket

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"millrace/shared/platform/keyring"
)

// MinKey is the minimum length of a key, in bytes.
const MinKey = 32

// maxToken is the length of the longest token that is parsed, in bytes.
const maxToken = 4 << 10

// domain separates these signatures from others made with the same key.
const domain = "millrace attempt v1\n"

// ErrInvalid means that the token was not signed with this key, or has expired.
var ErrInvalid = errors.New("ticket: invalid or expired token")

// Attempt is the content of a token.
type Attempt struct {
	Org      string `json:"o"`
	Run      string `json:"r"`
	Node     int    `json:"n"`           // in the plan
	Number   int    `json:"a"`           // of the attempt, 1 for the first
	Task     string `json:"t"`           // name of the task, for the log
	MapIndex *int   `json:"i,omitempty"` // of a map instance, for the log
	Expires  int64  `json:"e"`           // Unix seconds
	// Nonce identifies the runner that an attempt was handed off to. Of several
	// for one attempt only the last may begin it.
	Nonce string `json:"c,omitempty"`
}

var encoding = base64.RawURLEncoding.Strict()

// Sign returns the token of an attempt: its JSON and a MAC of it, in URL-safe
// base64 separated by a dot. It panics if the key is shorter than MinKey.
func Sign(key []byte, a Attempt) string {
	data, err := json.Marshal(a)
	if err != nil {
		panic(err) // strings and numbers always marshal
	}
	return encoding.EncodeToString(data) + "." + encoding.EncodeToString(mac(key, data))
}

// Check parses a token that was signed with one of the keys. Errors:
// ErrInvalid, also for keys that are too short.
func Check(ctx context.Context, keys *keyring.Ring, token string, now time.Time) (Attempt, error) {
	if len(token) > maxToken {
		return Attempt{}, ErrInvalid
	}
	body, sum, _ := strings.Cut(token, ".")
	data, err := encoding.DecodeString(body)
	given, sumErr := encoding.DecodeString(sum)
	if err != nil || sumErr != nil {
		return Attempt{}, ErrInvalid
	}
	signed := func(key []byte) bool { return len(key) >= MinKey && hmac.Equal(given, mac(key, data)) }
	if !keys.Verify(ctx, signed) {
		return Attempt{}, ErrInvalid
	}
	var a Attempt
	if json.Unmarshal(data, &a) != nil || now.Unix() >= a.Expires {
		return Attempt{}, ErrInvalid
	}
	return a, nil
}

func mac(key, data []byte) []byte {
	if len(key) < MinKey {
		panic("ticket: the key is too short")
	}
	h := hmac.New(sha256.New, key)
	h.Write([]byte(domain))
	h.Write(data)
	return h.Sum(nil)
}
