// Package ticket makes and checks the bearer token with which the sandbox acts
// for one attempt of one task: it may hand over that attempt's log, ask whether it
// is to stop, save files beside that attempt's output and open files of its
// workspace, until the attempt's time is over, and nothing else.
package ticket

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"time"
)

// MinKey is the least length of a key, in bytes.
const MinKey = 32

// maxToken is the longest token looked at, in bytes.
const maxToken = 4 << 10

// domain keeps what is signed here apart from whatever else a key may sign.
const domain = "millrace attempt v1\n"

// ErrInvalid: the token is not one of this key's, or its time is over.
var ErrInvalid = errors.New("ticket: invalid or expired token")

// Attempt is what a token stands for.
type Attempt struct {
	Org      string `json:"o"`
	Run      string `json:"r"`
	Node     int    `json:"n"`           // of the plan
	Number   int    `json:"a"`           // of the attempt, 1 for the first
	Task     string `json:"t"`           // name of the task, for the log
	MapIndex *int   `json:"i,omitempty"` // of a map instance, for the log
	Expires  int64  `json:"e"`           // Unix seconds
}

var encoding = base64.RawURLEncoding.Strict()

// Sign makes the token of an attempt: its JSON and a MAC over it, in URL-safe
// base64 with a point between. It panics on a key shorter than MinKey.
func Sign(key []byte, a Attempt) string {
	data, err := json.Marshal(a)
	if err != nil {
		panic(err) // strings and numbers always marshal
	}
	return encoding.EncodeToString(data) + "." + encoding.EncodeToString(mac(key, data))
}

// Check reads a token. Errors: ErrInvalid, also for a key that is too short.
func Check(key []byte, token string, now time.Time) (Attempt, error) {
	if len(key) < MinKey || len(token) > maxToken {
		return Attempt{}, ErrInvalid
	}
	body, sum, _ := strings.Cut(token, ".")
	data, err := encoding.DecodeString(body)
	given, sumErr := encoding.DecodeString(sum)
	if err != nil || sumErr != nil || !hmac.Equal(given, mac(key, data)) {
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
