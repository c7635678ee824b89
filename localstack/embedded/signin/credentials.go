package signin

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"millrace/localstack/embedded/datadir"
	"millrace/localstack/localhost"
	"millrace/shared/account/identity"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/ids"
	"millrace/shared/platform/table"
)

// CredentialsFile is the file in the data directory that holds what the first
// start gave.
const CredentialsFile = "credentials.json"

// The workspace and owner that the first start makes.
const (
	FirstWorkspace = "Local"
	FirstOwner     = "owner@millrace.local"
)

// Credentials is the content of [CredentialsFile].
type Credentials struct {
	BaseURL string `json:"base_url"`
	OrgID   string `json:"org_id"`
	Email   string `json:"email"`   // of the workspace's owner
	APIKey  string `json:"api_key"` // with full access
	// LocalSecret is the bearer token of the routes that no deployment has.
	LocalSecret string `json:"local_secret"`
	// AWSAccessKeyID and AWSSecretAccessKey sign calls of the Invoke API.
	AWSAccessKeyID     string `json:"aws_access_key_id"`
	AWSSecretAccessKey string `json:"aws_secret_access_key"`
}

// Keys open the routes that no deployment has.
func (c Credentials) Keys() localhost.Keys {
	return localhost.Keys{Secret: c.LocalSecret, AccessKeyID: c.AWSAccessKeyID, SecretAccessKey: c.AWSSecretAccessKey}
}

// EnsureCredentials makes, at the first start, a workspace, its owner and an
// API key with full access, and writes them to dir/credentials.json (mode
// 0600). Later starts return what is there, with the current base URL, and add
// what a file of an earlier version lacks. A first start that was killed half-way
// is completed by the next; a file that is lost or damaged is made again with a
// new key in place of the old.
func EnsureCredentials(ctx context.Context, dir, baseURL string, t table.Table, now clock.Clock) (Credentials, error) {
	path := filepath.Join(dir, CredentialsFile)
	var have Credentials
	data, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return Credentials{}, err
	case json.Unmarshal(data, &have) != nil:
		have = Credentials{}
	}
	made, err := identity.Bootstrap(ctx, t, now.Now(), FirstWorkspace, FirstOwner,
		identity.Credentials{OrgID: have.OrgID, Email: have.Email, APIKey: have.APIKey})
	if err != nil {
		return Credentials{}, err
	}
	want := Credentials{
		BaseURL: baseURL, OrgID: made.OrgID, Email: made.Email, APIKey: made.APIKey,
		LocalSecret:        cmp.Or(have.LocalSecret, ids.Token(32)),
		AWSAccessKeyID:     cmp.Or(have.AWSAccessKeyID, "MILLRACE"+rand.Text()[:12]),
		AWSSecretAccessKey: cmp.Or(have.AWSSecretAccessKey, ids.Token(30)),
	}
	if want == have && ownersAlone(path) {
		return have, nil
	}
	return want, datadir.WriteJSON(path, want)
}

// ownersAlone reports whether nobody but its owner reads a file.
func ownersAlone(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().Perm()&0o077 == 0
}
