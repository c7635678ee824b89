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

	"millrace/localstack/atomicfile"
	"millrace/localstack/localhost"
	"millrace/shared/account/identity"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/ids"
	"millrace/shared/platform/table"
)

// CredentialsFile is the file in the data directory with the credentials of the
// first start.
const CredentialsFile = "credentials.json"

// The workspace and owner created on the first start.
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
	// LocalSecret is the bearer token of the local routes, which deployments do
	// not have.
	LocalSecret string `json:"local_secret"`
	// AWSAccessKeyID and AWSSecretAccessKey sign calls of the Invoke API, and
	// requests of users' own buckets at S3URL.
	AWSAccessKeyID     string `json:"aws_access_key_id"`
	AWSSecretAccessKey string `json:"aws_secret_access_key"`
	S3URL              string `json:"s3_url,omitempty"` // of the embedded object store
}

// SetS3URL sets the address of the object store, and writes it to
// dir/credentials.json if it is another one.
func (c *Credentials) SetS3URL(dir, url string) error {
	if c.S3URL == url {
		return nil
	}
	c.S3URL = url
	return atomicfile.WriteJSON(filepath.Join(dir, CredentialsFile), *c)
}

// Keys returns the credentials of the local routes.
func (c Credentials) Keys() localhost.Keys {
	return localhost.Keys{Secret: c.LocalSecret, AccessKeyID: c.AWSAccessKeyID, SecretAccessKey: c.AWSSecretAccessKey}
}

// EnsureCredentials creates, on the first start, a workspace, its owner and an
// API key with full access, and writes them to dir/credentials.json (mode
// 0600). Later starts return the existing credentials, with the current base
// URL and with fields that a file of an earlier version lacks. An interrupted
// first start is completed by the next; a lost or damaged file is replaced with
// a new key.
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
		S3URL:              have.S3URL,
	}
	if want == have && ownersAlone(path) {
		return have, nil
	}
	return want, atomicfile.WriteJSON(path, want)
}

// ownersAlone reports whether only its owner can read a file.
func ownersAlone(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().Perm()&0o077 == 0
}
