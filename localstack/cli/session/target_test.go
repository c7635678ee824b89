package session

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/cli/command"
)

// target returns a target of the tests, of which the folder's has a local secret.
func target(url, key, org, source string) Target {
	t := Target{URL: url, APIKey: key, Org: org, Source: source}
	if url == "http://folder:1" {
		t.Operator = "s"
	}
	return t
}

// TestTargetTakesFirstSource covers each source of a server together with all that
// come after it.
func TestTargetTakesFirstSource(t *testing.T) {
	t.Parallel()
	project := t.TempDir()
	below := filepath.Join(project, "flows", "daily")
	require.NoError(t, os.MkdirAll(below, 0o700))
	require.NoError(t, os.Mkdir(filepath.Join(project, ".millrace"), 0o700))
	file := filepath.Join(project, ".millrace", "credentials.json")
	require.NoError(t, os.WriteFile(file, []byte(`{"base_url": "http://folder:1", "api_key": "folder's", "local_secret": "s"}`), 0o600))
	config := filepath.Join(t.TempDir(), "millrace", "contexts.json")
	require.NoError(t, Contexts{Current: "prod", Contexts: map[string]Context{
		"prod": {URL: "https://prod/", APIKey: "prod's", Org: "org_p"}, "test": {URL: "https://test", APIKey: "test's"},
	}}.Write(config))
	info, err := os.Stat(config)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())

	for name, c := range map[string]struct {
		flags Session
		env   map[string]string
		dir   string
		want  Target
	}{
		"context in use":           {Session{}, nil, "/", target("https://prod", "prod's", "org_p", "context prod")},
		"folder":                   {Session{}, nil, project, target("http://folder:1", "folder's", "", file)},
		"folder above":             {Session{}, nil, below, target("http://folder:1", "folder's", "", file)},
		"folder, key by flag":      {Session{APIKey: "mine"}, nil, below, target("http://folder:1", "mine", "", file)},
		"environment":              {Session{}, map[string]string{urlVariable: "http://env:2/", orgVariable: "org_e"}, below, target("http://env:2", "", "org_e", urlVariable)},
		"environment and its key":  {Session{}, map[string]string{urlVariable: "http://env:2", keyVariable: "env's"}, below, target("http://env:2", "env's", "", urlVariable)},
		"context by flag":          {Session{Context: "test"}, map[string]string{urlVariable: "http://env:2"}, below, target("https://test", "test's", "", "--context test")},
		"URL by flag":              {Session{URL: "http://flag:3"}, map[string]string{urlVariable: "http://env:2"}, below, target("http://flag:3", "", "", "--url")},
		"URL and key by flag":      {Session{URL: "http://flag:3", APIKey: "mine"}, map[string]string{keyVariable: "env's"}, below, target("http://flag:3", "mine", "", "--url")},
		"URL by flag, key by env.": {Session{URL: "http://flag:3"}, map[string]string{keyVariable: "env's"}, below, target("http://flag:3", "env's", "", "--url")},
		"key of another URL":       {Session{URL: "http://flag:3"}, map[string]string{urlVariable: "http://env:2", keyVariable: "env's"}, below, target("http://flag:3", "", "", "--url")},
		"context, key by env.":     {Session{Context: "prod"}, map[string]string{keyVariable: "env's", orgVariable: "org_e"}, below, target("https://prod", "prod's", "org_p", "--context prod")},
		"the folder's by its URL":  {Session{URL: "http://folder:1/"}, nil, below, target("http://folder:1", "folder's", "", "--url")},
		"a context's by its URL":   {Session{}, map[string]string{urlVariable: "https://prod"}, below, target("https://prod", "prod's", "org_p", urlVariable)},
	} {
		chosen, err := c.flags.find(func(name string) string { return c.env[name] }, c.dir, config)
		require.NoError(t, err, name)
		got, err := chosen.complete()
		require.NoError(t, err, name)
		assert.Equal(t, c.want, got, name)
	}
	for name, c := range map[string]struct {
		flags Session
		want  string
	}{
		"two servers":        {Session{URL: "http://a", Context: "prod"}, "name two servers"},
		"unknown context":    {Session{Context: "none"}, "there is no context none"},
		"no address":         {Session{URL: "prod"}, `"prod" of --url is not an address`},
		"another scheme":     {Session{URL: "ftp://prod"}, "is not an address"},
		"key in the address": {Session{URL: "https://key@prod"}, "is not an address"},
	} {
		_, err := c.flags.find(func(string) string { return "" }, project, config)
		require.ErrorContains(t, err, c.want, name)
	}
	_, err = (&Session{Context: "none"}).find(func(string) string { return "" }, project, config)
	assert.Equal(t, command.NotFound, command.Code(err))
	if os.Geteuid() == 0 {
		require.NoError(t, os.Chown(file, 12345, 12345))
		_, err = (&Session{}).find(func(string) string { return "" }, below, config)
		require.ErrorContains(t, err, "belongs to another user")
	}
	_, err = (&Session{}).find(func(string) string { return "" }, "/", filepath.Join(t.TempDir(), "none"))
	require.ErrorContains(t, err, "start one here with millrace serve")
}

func TestCredentialsOfAnotherUserAreNamed(t *testing.T) {
	t.Parallel()
	read := func(path string) ([]byte, error) {
		if path == "/srv/.millrace/credentials.json" {
			return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrPermission}
		}
		return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
	}
	require.ErrorContains(t, unnamed("/srv/flows/etl", read), "/srv/.millrace/credentials.json is not yours to read")
	require.ErrorContains(t, unnamed("/home/ann", read), "start one here with millrace serve")
}
