package session

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"millrace/localstack/cli/command"
	"millrace/localstack/client"
)

// Environment variables that name a server.
const (
	urlVariable = "MILLRACE_URL"
	keyVariable = "MILLRACE_API_KEY"
	orgVariable = "MILLRACE_ORG"
)

// credentialsFile is the file in which a local server stores its address and key,
// relative to the folder that it was started in.
var credentialsFile = filepath.Join(".millrace", "credentials.json")

// Target is a server and the credential for it.
type Target struct {
	URL    string
	APIKey string
	Org    string
	Source string // where the server was found, for messages
	Again  string // the command that signs in again, if the credential has expired

	ExpiresAt time.Time // of the credential; zero: unknown
	Operator  string    // the local secret of a server of this machine; empty: it is another's, or none
}

// Client returns a client of the server.
func (t Target) Client() *client.Client {
	return &client.Client{BaseURL: t.URL, Token: t.APIKey, Org: t.Org}
}

// candidate is a server whose credential may have to be read from the keyring.
type candidate struct {
	Target
	context Context // that has the credential, if APIKey is empty
}

// complete returns the target with its credential. Errors: exit code NotAllowed if the
// keyring that has it cannot be read.
func (c candidate) complete() (Target, error) {
	if c.APIKey != "" || c.Again != "" {
		return c.Target, nil
	}
	token, err := c.context.AccessToken()
	if err != nil {
		return c.Target, &command.Error{Code: command.NotAllowed, Err: fmt.Errorf("%w; sign in again with millrace login --no-keyring --url %s, or use --api-key", err, c.URL)}
	}
	c.APIKey = token
	return c.Target, nil
}

// find returns the first server that is named by: the flags, the environment, the
// credentials of this folder or a parent, the current context. A credential is used
// only with the server it is stored with; that of --api-key with any.
func (s *Session) find(getenv func(string) string, dir, config string) (candidate, error) {
	if s.URL != "" && s.Context != "" {
		return candidate{}, errors.New("--url and --context name two servers: give one of them")
	}
	if s.Context != "" {
		t, err := named(config, s.Context, "--context "+s.Context)
		t.use(s.APIKey)
		return t, err
	}
	stored, err := s.stored(dir, config)
	if err != nil {
		return candidate{}, err
	}
	key, org := getenv(keyVariable), getenv(orgVariable)
	source, address := "--url", s.URL
	if address == "" {
		source, address = urlVariable, getenv(urlVariable)
	}
	if address == "" {
		if len(stored) == 0 {
			return candidate{}, unnamed(dir, os.ReadFile)
		}
		t := stored[0]
		t.use(cmp.Or(s.APIKey, key))
		t.Org = cmp.Or(org, t.Org)
		return t, nil
	}
	t, err := checked(candidate{Target: Target{URL: address, Source: source}})
	if err != nil {
		return candidate{}, err
	}
	// The environment's key belongs to the environment's URL.
	if beside := getenv(urlVariable); beside == "" || strings.TrimSuffix(beside, "/") == t.URL {
		t.APIKey, t.Org = key, org
	}
	for _, k := range stored {
		if k.URL == t.URL {
			t.Operator = cmp.Or(t.Operator, k.Operator)
		}
		if t.APIKey == "" && t.context.Keyring == "" && k.URL == t.URL {
			t.APIKey, t.Org, t.Again, t.ExpiresAt, t.context = k.APIKey, cmp.Or(t.Org, k.Org), k.Again, k.ExpiresAt, k.context
		}
	}
	t.use(s.APIKey)
	return t, nil
}

// unnamed is the error of a command that names no server. A server's credentials that
// another user may read are the likely reason.
func unnamed(dir string, read func(path string) ([]byte, error)) error {
	for {
		file := filepath.Join(dir, credentialsFile)
		if _, err := read(file); errors.Is(err, fs.ErrPermission) {
			return fmt.Errorf("no server is named, and %s is not yours to read: give its server with --url and a key with --api-key, or %s and %s", file, urlVariable, keyVariable)
		}
		if dir == filepath.Dir(dir) {
			return errors.New("no server is named: start one here with millrace serve, or name one with --url or " + urlVariable)
		}
		dir = filepath.Dir(dir)
	}
}

// use replaces the credential unless key is empty.
func (t *Target) use(key string) {
	if key != "" {
		t.APIKey, t.Again, t.ExpiresAt = key, "", time.Time{}
	}
}

// expired returns an error if the credential has expired.
func (t Target) expired() error {
	if t.Again == "" {
		return nil
	}
	return &command.Error{Code: command.NotAllowed, Err: fmt.Errorf("your sign-in at %s has expired (%s): sign in again with %s", t.URL, t.Source, t.Again)}
}

// stored returns the server of this folder or the nearest parent, and that of the
// current context, as far as there are any.
func (s *Session) stored(dir, config string) (found []candidate, err error) {
	path, known, err := credentials(dir)
	if err != nil {
		return nil, err
	}
	if path != "" {
		t, err := checked(candidate{Target: Target{URL: known.BaseURL, APIKey: known.APIKey, Source: path, Operator: known.LocalSecret}})
		if err != nil {
			return nil, err
		}
		found = append(found, t)
	}
	contexts, err := ReadContexts(config)
	if err != nil || contexts.Current == "" {
		return found, err
	}
	t, err := named(config, contexts.Current, "context "+contexts.Current)
	return append(found, t), err
}

func named(config, name, source string) (candidate, error) {
	contexts, err := ReadContexts(config)
	if err != nil {
		return candidate{}, err
	}
	c, ok := contexts.Contexts[name]
	if !ok {
		return candidate{}, &command.Error{Code: command.NotFound, Err: fmt.Errorf("there is no context %s (see millrace context list)", name)}
	}
	t := candidate{Target{URL: c.URL, APIKey: cmp.Or(c.APIKey, c.Token), Org: c.Org, Source: source}, c}
	if c.APIKey == "" {
		t.ExpiresAt = c.ExpiresAt
	}
	if c.APIKey == "" && c.SignedIn() && !time.Now().Before(c.ExpiresAt) {
		t.Again = "millrace login --context " + name
	}
	return checked(t)
}

func checked(t candidate) (candidate, error) {
	u, err := url.Parse(t.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil {
		return candidate{}, fmt.Errorf("%q of %s is not an address such as http://127.0.0.1:8080", t.URL, t.Source)
	}
	t.URL = strings.TrimSuffix(t.URL, "/")
	return t, nil
}

// localCredentials is the part of a server's credentials.json that clients read.
type localCredentials struct {
	BaseURL     string `json:"base_url"`
	APIKey      string `json:"api_key"`
	LocalSecret string `json:"local_secret"`
}

// credentials reads the credentials file of a folder or its nearest parent that has
// one. path is "" if there is none.
func credentials(dir string) (path string, c localCredentials, err error) {
	for {
		path = filepath.Join(dir, credentialsFile)
		data, err := os.ReadFile(path)
		switch {
		case err == nil:
			if err := mine(path); err != nil {
				return "", c, err
			}
			if err := json.Unmarshal(data, &c); err != nil {
				return "", c, fmt.Errorf("%s: %w", path, err)
			}
			return path, c, nil
		case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission):
			return "", c, err
		}
		if dir == filepath.Dir(dir) {
			return "", c, nil
		}
		dir = filepath.Dir(dir)
	}
}
