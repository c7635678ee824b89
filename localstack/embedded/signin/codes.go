package signin

import (
	"crypto/rand"
	"crypto/subtle"
	"math/big"
	"strings"
	"sync"
	"time"
)

// Limits of the one-time code of a browser's sign-in.
const (
	codeLifetime = 10 * time.Minute
	codeTries    = 10              // wrong codes after which it is void
	showInterval = 5 * time.Second // minimum time between two times it is shown
	codeLetters  = 8
	// letters spell no words and are not mistaken for digits, as RFC 8628 proposes.
	letters = "BCDFGHJKLMNPQRSTVWXZ"
)

// codes is the one-time code that browsers are asked for: there is one at a
// time, which is good for one sign-in.
type codes struct {
	mu    sync.Mutex
	show  func(code string)
	code  string // without a hyphen; "" for none
	until time.Time
	tries int // left
	shown time.Time
	pause time.Time // no new code is made before this time
}

// Tell sets what shows a one-time code to the operator, such as ABCD-EFGH,
// whenever a browser asks for one. Without it no browser can sign in.
func (i *Issuer) Tell(show func(code string)) {
	i.codes.mu.Lock()
	defer i.codes.mu.Unlock()
	i.codes.show = show
}

// ask shows the code, a new one if there is none; not right after wrong ones
// made it void. It returns false if nothing can show it.
func (c *codes) ask(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.show == nil {
		return false
	}
	if c.code == "" && now.Before(c.pause) {
		return true
	}
	if c.code == "" || !now.Before(c.until) {
		c.code, c.until, c.tries, c.shown = newCode(), now.Add(codeLifetime), codeTries, time.Time{}
	}
	if now.Sub(c.shown) >= showInterval { // a page that loads itself must not flood the terminal
		c.shown = now
		c.show(c.code[:codeLetters/2] + "-" + c.code[codeLetters/2:])
	}
	return true
}

// take uses the code up if it is the one that was typed.
func (c *codes) take(typed string, now time.Time) bool {
	typed = strings.ToUpper(strings.NewReplacer("-", "", " ", "").Replace(typed))
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.code == "" || !now.Before(c.until) {
		return false
	}
	if subtle.ConstantTimeCompare([]byte(typed), []byte(c.code)) == 1 { //guard:local/one-time-code true
		c.code = ""
		return true
	}
	if c.tries--; c.tries == 0 {
		c.code, c.pause = "", now.Add(showInterval)
	}
	return false
}

func newCode() string {
	out := make([]byte, codeLetters)
	for i := range out {
		n, err := rand.Int(rand.Reader, big.NewInt(int64(len(letters))))
		if err != nil {
			panic(err) // crypto/rand does not fail
		}
		out[i] = letters[n.Int64()]
	}
	return string(out)
}
