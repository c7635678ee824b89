package objectstore

import (
	"github.com/versity/versitygw/auth"
)

// accounts are the account of all buckets and that of users.
type accounts struct {
	auth.IAMService // of all buckets
	key, secret     string
}

// GetUserAccount returns the account of an access key, or the gateway's error
// that there is none.
func (a accounts) GetUserAccount(access string) (auth.Account, error) {
	if a.key != "" && access == a.key {
		return auth.Account{Access: a.key, Secret: a.secret, Role: auth.RoleUserPlus}, nil
	}
	return a.IAMService.GetUserAccount(access)
}

// ResolveAccounts returns those of the access keys that have no account.
func (a accounts) ResolveAccounts(keys []string) (missing []string, err error) {
	for _, key := range keys {
		if a.key == "" || key != a.key {
			missing = append(missing, key)
		}
	}
	return a.IAMService.ResolveAccounts(missing)
}
