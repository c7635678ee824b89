// Package secret stores the secrets of workspaces and resolves them for tasks.
// A secret is identified by its name and its environment. The one without an
// environment is the workspace's own, the fallback for all environments. Values
// are sealed by the vault for the workspace, environment and name. They are
// opened only where a task runs, or for a caller with permission to read one.
//
// Stored items, at <org>#secrets:
//
//	<name>#<environment>  a secret; the workspace's own has no environment
package secret

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"millrace/shared/account/quota"
	"millrace/shared/kit/record"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/table"
	"millrace/shared/platform/vault"
)

// Secret is a secret without its value.
type Secret struct {
	record.Meta
	Name        string            `table:"name" json:"name"`
	Environment *string           `table:"environment" json:"environment" doc:"null: the workspace's own secret, the fallback of every environment"`
	Description string            `table:"description,omitempty" json:"description"`
	Tags        map[string]string `table:"tags,omitempty" json:"tags"`
	Version     int               `table:"version" json:"version" doc:"Incremented by each new value"`
	Sealed      vault.Sealed      `table:"sealed" json:"-"`
}

// SchemaName is the name of the schema in the interface.
func (Secret) SchemaName() string { return "SecretResponse" }

// Kind is the record kind of secrets.
var Kind = record.Kind{Folder: "secrets", Type: "secret", Noun: "Secret", Limit: quota.Secrets, Name: nameOf}

// ID returns the id of a secret. The empty environment is the workspace's own.
func ID(name, environment string) string { return name + "#" + environment }

// Prefix returns the common prefix of the ids of all secrets of a name.
func Prefix(name string) string { return name + "#" }

// nameOf returns the name of a secret in messages and audit entries.
func nameOf(id string) string {
	name, environment, _ := strings.Cut(id, "#")
	if environment == "" {
		return name
	}
	return environment + "/" + name
}

// Of returns the environment, empty for the workspace's own secret.
func (s *Secret) Of() string {
	if s.Environment == nil {
		return ""
	}
	return *s.Environment
}

// List returns the secrets of the workspace for which keep returns true, without their
// sealed values, in order of name and environment.
func List(ctx context.Context, store record.Store, keep func(*Secret) bool) ([]Secret, error) {
	return record.New[Secret](Kind, store).List(ctx, "", 0, unsealed(keep))
}

// Page returns one page of the secrets that List lists, as [record.Set.Page] does.
func Page(ctx context.Context, store record.Store, after string, limit int, keep func(*Secret) bool) ([]Secret, string, error) {
	return record.New[Secret](Kind, store).Page(ctx, after, limit, unsealed(keep))
}

// unsealed is keep without the value, which may have 64 KB, to save memory.
func unsealed(keep func(*Secret) bool) func(*Secret) bool {
	return func(s *Secret) bool {
		s.Sealed = nil
		return keep(s)
	}
}

// Seal seals a value and sets it as the secret's.
func (s *Secret) Seal(ctx context.Context, v vault.Vault, org, value string) (err error) {
	s.Sealed, err = v.Seal(ctx, org, purpose(s.Name, s.Of()), []byte(value)) //guard:secret/bound-to-workspace arg 2 "org"
	if err != nil {
		return fmt.Errorf("seal secret %s: %w", s.Name, err)
	}
	return nil
}

// Open returns the opened value.
func (s *Secret) Open(ctx context.Context, v vault.Vault, org string) (string, error) {
	value, err := v.Open(ctx, org, purpose(s.Name, s.Of()), s.Sealed)
	if err != nil {
		return "", fmt.Errorf("open secret %s: %w", s.Name, err)
	}
	return string(value), nil
}

// purpose returns the purpose that a value is sealed for.
func purpose(name, environment string) string { return "secret/" + environment + "/" + name }

// Resolver resolves the secrets of tasks.
type Resolver struct {
	Table table.Table
	Vault vault.Vault
}

// Value returns the value of a secret in an environment: the environment's own,
// or else the workspace's. Errors: errs.NotFound; those of table and vault.
func (r Resolver) Value(ctx context.Context, org, environment, name string) (string, error) {
	keys := []table.Key{{PK: partition(org), SK: ID(name, environment)}}
	if environment != "" {
		keys = append(keys, table.Key{PK: partition(org), SK: ID(name, "")})
	}
	items, err := r.Table.BatchGet(ctx, keys, table.Consistent)
	if err != nil {
		return "", fmt.Errorf("read secret %s: %w", name, err)
	}
	found, err := table.Decode[Secret](items)
	if err != nil {
		return "", fmt.Errorf("read secret %s: %w", name, err)
	}
	var best *Secret
	for i := range found {
		if best == nil || found[i].Of() == environment {
			best = &found[i]
		}
	}
	if best == nil {
		return "", errs.New(errs.NotFound, "there is no secret named %s in the environment %s, nor in the workspace", name, environment)
	}
	value, err := best.Open(ctx, r.Vault, org)
	if errors.Is(err, vault.ErrRejected) {
		return "", errs.Wrap(errs.Gone, err, "the value of the secret %s cannot be opened with the vault's keys: set it anew", name)
	}
	return value, err
}

func partition(org string) string {
	if org == "" {
		panic("secret: of no workspace")
	}
	return org + "#" + Kind.Folder //guard:tenant/secrets operand 1 "org"
}
