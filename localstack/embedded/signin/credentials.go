package signin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"millrace/localstack/embedded/datadir"
	"millrace/shared/clock"
	"millrace/shared/identity"
	"millrace/shared/ids"
	"millrace/shared/table"
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
	// LocalSecret is the bearer token of what the server does to itself, such as
	// a backup.
	LocalSecret string `json:"local_secret"`
}

// EnsureCredentials makes, at the first start, a workspace, its owner and an
// API key with full access, and writes them to dir/credentials.json (mode
// 0600). Later starts return what is there, with the current base URL. A first
// start that was killed half-way is completed by the next; a file that is lost
// or damaged is made again with a new key in place of the old.
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
		LocalSecret: cmp.Or(have.LocalSecret, ids.Token(32)),
	}
	if want == have {
		return have, nil
	}
	return want, datadir.WriteJSON(path, want)
}
