package session

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"millrace/localstack/atomicfile"
)

// Context is a stored server with an API key or the access token of millrace login.
type Context struct {
	URL    string `json:"url"`
	APIKey string `json:"api_key,omitempty"`
	Org    string `json:"org,omitempty"`

	Token     string    `json:"access_token,omitempty"` // "" if the keyring has it, see [Context.AccessToken]
	Keyring   string    `json:"keyring,omitempty"`      // the token's account in the keyring
	ExpiresAt time.Time `json:"expires_at,omitzero"`    // expiry of the token
	Email     string    `json:"email,omitempty"`        // user of the token
}

// Contexts holds a user's contexts by name.
type Contexts struct {
	Current  string             `json:"current,omitempty"`
	Contexts map[string]Context `json:"contexts"`
}

// ConfigFile returns the path of contexts.json in the user's configuration folder.
func ConfigFile() (string, error) {
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "millrace", "contexts.json"), nil
}

// ReadContexts reads a file of contexts. A missing file has none.
func ReadContexts(file string) (Contexts, error) {
	c := Contexts{Contexts: map[string]Context{}}
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return c, err
	}
	if err := json.Unmarshal(data, &c); err != nil {
		return c, fmt.Errorf("%s: %w", file, err)
	}
	return c, nil
}

// UserContexts returns the user's contexts and their file.
func UserContexts() (file string, c Contexts, err error) {
	if file, err = ConfigFile(); err != nil {
		return "", c, err
	}
	c, err = ReadContexts(file)
	return file, c, err
}

// Write writes the contexts to a file that only its owner can read.
func (c Contexts) Write(file string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	return atomicfile.WriteJSON(file, c)
}
