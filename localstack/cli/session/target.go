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

	"millrace/localstack/client"
)

// The environment that names a server.
const (
	urlVariable = "MILLRACE_URL"
	keyVariable = "MILLRACE_API_KEY"
	orgVariable = "MILLRACE_ORG"
)

// credentialsFile is where a server on this machine leaves its address and key,
// below the folder that it was started in.
var credentialsFile = filepath.Join(".millrace", "credentials.json")

// Target is a server, and the credential for it.
type Target struct {
	URL    string
	APIKey string
	Org    string
	Source string // where that was found, for people
}

// Client calls it.
func (t Target) Client() *client.Client {
	return &client.Client{BaseURL: t.URL, Token: t.APIKey, Org: t.Org}
}

// find takes the first that names a server: the flags, the environment, the
// credentials of this folder or one above, the context in use. A key that belongs to
// one of them is never sent to the server of another; one that is given by flag or
// environment is sent to whatever is found.
func (s *Session) find(getenv func(string) string, dir, config string) (Target, error) {
	given := cmp.Or(s.APIKey, getenv(keyVariable))
	org := getenv(orgVariable)
	if s.URL != "" && s.Context != "" {
		return Target{}, errors.New("--url and --context name two servers: give one of them")
	}
	switch {
	case s.URL != "":
		return checked(Target{s.URL, given, org, "--url"})
	case s.Context != "":
		return named(config, s.Context, given, org, "--context "+s.Context)
	case getenv(urlVariable) != "":
		return checked(Target{getenv(urlVariable), given, org, urlVariable})
	}
	path, known, err := credentials(dir)
	if err != nil {
		return Target{}, err
	}
	if path != "" {
		return checked(Target{known.BaseURL, cmp.Or(given, known.APIKey), org, path})
	}
	contexts, err := ReadContexts(config)
	if err != nil {
		return Target{}, err
	}
	if contexts.Current != "" {
		return named(config, contexts.Current, given, org, "context "+contexts.Current)
	}
	return Target{}, errors.New("no server is named: start one here with millrace serve, or name one with --url or " + urlVariable)
}

func named(config, name, key, org, source string) (Target, error) {
	contexts, err := ReadContexts(config)
	if err != nil {
		return Target{}, err
	}
	c, ok := contexts.Contexts[name]
	if !ok {
		return Target{}, fmt.Errorf("there is no context %s (see millrace context list)", name)
	}
	return checked(Target{c.URL, cmp.Or(key, c.APIKey), cmp.Or(org, c.Org), source})
}

func checked(t Target) (Target, error) {
	u, err := url.Parse(t.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil {
		return Target{}, fmt.Errorf("%q of %s is no address such as http://127.0.0.1:8080", t.URL, t.Source)
	}
	t.URL = strings.TrimSuffix(t.URL, "/")
	return t, nil
}

// localCredentials is what a client reads of a server's credentials.json.
type localCredentials struct {
	BaseURL string `json:"base_url"`
	APIKey  string `json:"api_key"`
}

// credentials finds those of a folder or the nearest one above; path is "" if there
// are none.
func credentials(dir string) (path string, c localCredentials, err error) {
	for {
		path = filepath.Join(dir, credentialsFile)
		data, err := os.ReadFile(path)
		switch {
		case err == nil:
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
