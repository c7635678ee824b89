package session

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/zalando/go-keyring"
)

const (
	// keyringService is the name of the tokens' service in the keyring.
	keyringService = "millrace"
	// keyringTimeout bounds each call. A locked keyring asks the user to unlock it,
	// and waits forever where nobody sees that.
	keyringTimeout = 10 * time.Second
)

// errNoKeyring means that this session has no keyring.
var errNoKeyring = errors.New("there is no keyring")

// SetToken stores an access token: in the keyring if useKeyring is true and there is
// one that accepts it, otherwise in the context itself. It does not remove an earlier
// token.
func (c *Context) SetToken(token string, useKeyring bool) {
	c.Token, c.Keyring = token, ""
	if !useKeyring {
		return
	}
	// The account is unique: other configuration folders may have a context of that
	// name, and they use the same keyring.
	account := c.URL + " " + rand.Text()
	_, err := inKeyring(func() (string, error) { return "", keyring.Set(keyringService, account, token) })
	if err == nil {
		c.Token, c.Keyring = "", account
	}
}

// SignedIn reports whether the context has an access token.
func (c Context) SignedIn() bool { return c.Token != "" || c.Keyring != "" }

// AccessToken returns the access token, "" if the context has none. It returns an error
// if the keyring that has it cannot be read.
func (c Context) AccessToken() (string, error) {
	if c.Keyring == "" {
		return c.Token, nil
	}
	token, err := inKeyring(func() (string, error) { return keyring.Get(keyringService, c.Keyring) })
	if err != nil {
		return "", fmt.Errorf("the access token for %s cannot be read from the keyring: %w", c.URL, err)
	}
	return token, nil
}

// RemoveToken removes the access token from the context, and from the keyring if that
// has it. A token that the keyring has lost is not an error.
func (c *Context) RemoveToken() error {
	account := c.Keyring
	c.Token, c.Keyring, c.ExpiresAt, c.Email = "", "", time.Time{}, ""
	if account == "" {
		return nil
	}
	_, err := inKeyring(func() (string, error) { return "", keyring.Delete(keyringService, account) })
	if errors.Is(err, keyring.ErrNotFound) {
		return nil
	}
	return err
}

// inKeyring calls the keyring and waits for at most keyringTimeout.
func inKeyring(call func() (string, error)) (string, error) {
	if !hasKeyring() {
		return "", errNoKeyring
	}
	type result struct {
		value string
		err   error
	}
	done := make(chan result, 1)
	go func() {
		value, err := call()
		done <- result{value, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-time.After(keyringTimeout):
		return "", fmt.Errorf("no answer within %v: is it locked?", keyringTimeout)
	}
}

// hasKeyring reports whether there may be a keyring. Except on macOS and Windows it is
// reached by the D-Bus session, and the library would start one if there is none.
func hasKeyring() bool {
	if runtime.GOOS == "darwin" || runtime.GOOS == "windows" {
		return true
	}
	if address := os.Getenv("DBUS_SESSION_BUS_ADDRESS"); address != "" {
		return !strings.HasPrefix(address, "autolaunch:")
	}
	_, err := os.Stat(fmt.Sprintf("/run/user/%d/bus", os.Getuid()))
	return err == nil
}
