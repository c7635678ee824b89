// Package secret is the secrets of workspaces as they are stored, and how a task
// gets the value of one. A secret is known by its name and its environment; that of
// no environment is the workspace's own, the fallback of them all. Values are sealed
// by the vault for the workspace, environment and name, and opened only where a
// task runs or somebody who may asks for one.
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

// SchemaName is what the interface calls it.
func (Secret) SchemaName() string { return "SecretResponse" }

// Kind is the kind of record that secrets are.
var Kind = record.Kind{Folder: "secrets", Type: "secret", Noun: "Secret", Limit: quota.Secrets, Name: nameOf}

// ID is the id of a secret; the empty environment stands for the workspace's own.
func ID(name, environment string) string { return name + "#" + environment }

// Prefix is what the ids of the secrets of one name begin with.
func Prefix(name string) string { return name + "#" }

// nameOf is how messages and audit entries name the secret of an id.
func nameOf(id string) string {
	name, environment, _ := strings.Cut(id, "#")
	if environment == "" {
		return name
	}
	return environment + "/" + name
}

// Of is the environment, empty for the workspace's own.
func (s *Secret) Of() string {
	if s.Environment == nil {
		return ""
	}
	return *s.Environment
}

// Seal seals a value as that of the secret.
func (s *Secret) Seal(ctx context.Context, v vault.Vault, org, value string) (err error) {
	s.Sealed, err = v.Seal(ctx, org, purpose(s.Name, s.Of()), []byte(value)) //guard:secret/bound-to-workspace arg 2 "org"
	if err != nil {
		return fmt.Errorf("seal secret %s: %w", s.Name, err)
	}
	return nil
}

// Open opens the value.
func (s *Secret) Open(ctx context.Context, v vault.Vault, org string) (string, error) {
	value, err := v.Open(ctx, org, purpose(s.Name, s.Of()), s.Sealed)
	if err != nil {
		return "", fmt.Errorf("open secret %s: %w", s.Name, err)
	}
	return string(value), nil
}

// purpose is what a value is sealed for.
func purpose(name, environment string) string { return "secret/" + environment + "/" + name }

// Resolver resolves the secrets of tasks.
type Resolver struct {
	Table table.Table
	Vault vault.Vault
}

// Value is the value of a secret in an environment: that of the environment itself,
// else the workspace's own. Errors: errs.NotFound; those of table and vault.
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
	if errors.Is(err, vault.ErrRefused) {
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
