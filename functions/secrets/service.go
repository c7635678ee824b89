package secrets

import (
	"context"
	"strings"

	"millrace/shared/account/tenant"
	"millrace/shared/kit/record"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/table"
	"millrace/shared/platform/vault"
	"millrace/shared/run/registry"
	"millrace/shared/run/secret"
	"millrace/shared/web/httpapi"
)

// service implements the rules of secrets.
type service struct {
	secrets  record.Set[secret.Secret, *secret.Secret]
	vault    vault.Vault
	registry registry.Store
	cursors  httpapi.Cursors
}

// create creates a secret. Errors: errs.Unprocessable, errs.Conflict,
// errs.TooMany.
func (s *service) create(ctx context.Context, in *createIn) (secret.Secret, error) {
	made := secret.Secret{
		Name: in.Body.Name, Environment: in.Body.Environment, Description: in.Body.Description, Tags: in.Body.Tags, Version: 1,
	}
	if faults := append(checkValue(in.Body.Value), registry.CheckTags(errs.Body("tags"), in.Body.Tags)...); len(faults) > 0 {
		return made, errs.Validation(faults...)
	}
	if err := made.Seal(ctx, s.vault, tenant.From(ctx).OrgID, in.Body.Value); err != nil {
		return made, err
	}
	id := secret.ID(made.Name, made.Of())
	out, err := s.secrets.Write(ctx, id, s.within(ctx, made.Environment, errs.Body("environment"), record.Change[secret.Secret]{
		Next: func(now *secret.Secret) (secret.Secret, error) {
			if now != nil {
				return made, errs.New(errs.Conflict, "Secret '%s' exists already", secret.Kind.Name(id))
			}
			return made, nil
		},
	}))
	return out.After, err
}

// within makes a change that stores a secret one that fails with errs.Unprocessable,
// told of loc, without the secret's environment, also if that is deleted meanwhile.
func (s *service) within(ctx context.Context, environment *string, loc []any, c record.Change[secret.Secret]) record.Change[secret.Secret] {
	if environment == nil {
		return c
	}
	var e registry.Environment
	next := c.Next
	c.Next = func(now *secret.Secret) (out secret.Secret, err error) {
		if e, err = s.registry.NamedEnvironment(ctx, *environment, loc); err != nil {
			return out, err
		}
		return next(now)
	}
	c.Also = func(record.Outcome[secret.Secret]) []table.Write { return []table.Write{e.Check()} }
	return c
}

// list returns secrets without their values. Errors: errs.Invalid for a bad
// next_token.
func (s *service) list(ctx context.Context, in *listIn) (SecretListResponse, error) {
	deleted, err := s.registry.DeletedEnvironments(ctx)
	if err != nil {
		return SecretListResponse{}, err
	}
	all, next, err := httpapi.ReadPage(ctx, s.cursors, in, func(after string) ([]secret.Secret, string, error) {
		return secret.Page(ctx, s.secrets.Store, after, in.Limit, func(found *secret.Secret) bool {
			return !deleted[found.Of()] && (in.Environment == nil || found.Of() == *in.Environment)
		})
	})
	return SecretListResponse{all, next}, err
}

// get returns a secret without its value. Errors: errs.NotFound,
// errs.Unprocessable if several secrets have the name.
func (s *service) get(ctx context.Context, in *Path) (secret.Secret, error) {
	id, err := s.locate(ctx, in)
	if err != nil {
		return secret.Secret{}, err
	}
	return s.secrets.Get(ctx, id)
}

// update replaces a secret's value. Errors: those of get.
func (s *service) update(ctx context.Context, in *updateIn) (secret.Secret, error) {
	if faults := checkValue(in.Body.Value); len(faults) > 0 {
		return secret.Secret{}, errs.Validation(faults...)
	}
	at := in.Path
	switch body := in.Body.Environment; {
	case at.Environment == nil:
		at.Environment = body
	case body != nil && *body != *at.Environment:
		return secret.Secret{}, errs.Field(errs.Body("environment"), *body, "differs from the environment of the query")
	}
	return s.edit(ctx, &at, "update", func(now *secret.Secret) error {
		now.Version++
		return now.Seal(ctx, s.vault, tenant.From(ctx).OrgID, in.Body.Value)
	})
}

// patch changes description and tags. Errors: those of get.
func (s *service) patch(ctx context.Context, in *patchIn) (secret.Secret, error) {
	if in.Body.Tags != nil {
		if faults := registry.CheckTags(errs.Body("tags"), *in.Body.Tags); len(faults) > 0 {
			return secret.Secret{}, errs.Validation(faults...)
		}
	}
	return s.edit(ctx, &in.Path, "update_metadata", func(now *secret.Secret) error {
		if in.Body.Description != nil {
			now.Description = *in.Body.Description
		}
		if in.Body.Tags != nil {
			now.Tags = *in.Body.Tags
		}
		return nil
	})
}

// copy copies a secret to another environment. Errors: errs.NotFound;
// errs.Conflict if the target exists and overwrite is not set.
func (s *service) copy(ctx context.Context, in *copyIn) (secret.Secret, error) {
	org, body := tenant.From(ctx).OrgID, in.Body
	target := secret.Secret{Name: body.Name, Environment: body.TargetEnvironment}
	from, to := secret.ID(body.Name, (&secret.Secret{Environment: body.SourceEnvironment}).Of()), secret.ID(body.Name, target.Of())
	if from == to {
		return target, errs.Field(errs.Body("target_environment"), target.Of(), "is the source_environment")
	}
	if body.SourceEnvironment != nil {
		if _, err := s.registry.NamedEnvironment(ctx, *body.SourceEnvironment, errs.Body("source_environment")); err != nil {
			return target, err
		}
	}
	if body.TargetEnvironment != nil {
		if _, err := s.registry.NamedEnvironment(ctx, *body.TargetEnvironment, errs.Body("target_environment")); err != nil {
			return target, err
		}
	}
	source, err := s.secrets.Get(ctx, from)
	if err != nil {
		return target, err
	}
	value, err := source.Open(ctx, s.vault, org)
	if err != nil {
		return target, err
	}
	if err := target.Seal(ctx, s.vault, org, value); err != nil {
		return target, err
	}
	target.Description, target.Tags = source.Description, source.Tags
	out, err := s.secrets.Write(ctx, to, s.within(ctx, body.TargetEnvironment, errs.Body("target_environment"), record.Change[secret.Secret]{
		Action: "copy", Metadata: map[string]any{"source_environment": body.SourceEnvironment, "source_version": source.Version},
		Next: func(now *secret.Secret) (secret.Secret, error) {
			next := target
			next.Version = 1
			if now != nil {
				next.Version = now.Version + 1
				if !body.Overwrite {
					return next, errs.New(errs.Conflict, "Secret '%s' exists already; overwrite gives it a new version", secret.Kind.Name(to))
				}
			}
			return next, nil
		},
	}))
	return out.After, err
}

// delete deletes a secret. Errors: those of get.
func (s *service) delete(ctx context.Context, in *Path) (DeletedSecret, error) {
	id, err := s.locate(ctx, in)
	if err != nil {
		return DeletedSecret{}, err
	}
	gone, err := s.secrets.Delete(ctx, id, nil)
	return DeletedSecret{Status: "deleted", Name: gone.Name, Environment: gone.Environment}, err
}

// value returns a secret's value, after the audit entry was written. Errors:
// those of get.
func (s *service) value(ctx context.Context, in *Path) (SecretValueResponse, error) {
	found, err := s.get(ctx, in)
	if err != nil {
		return SecretValueResponse{}, err
	}
	value, err := found.Open(ctx, s.vault, tenant.From(ctx).OrgID)
	if err != nil {
		return SecretValueResponse{}, err
	}
	err = s.secrets.Note(ctx, found.SK, "read_value", map[string]any{"version": found.Version})
	return SecretValueResponse{Name: found.Name, Environment: found.Environment, Version: found.Version, Value: value}, err
}

// edit changes the secret identified by a path.
func (s *service) edit(ctx context.Context, at *Path, action string, do func(*secret.Secret) error) (secret.Secret, error) {
	id, err := s.locate(ctx, at)
	if err != nil {
		return secret.Secret{}, err
	}
	return s.secrets.Update(ctx, id, action, do)
}

// locate returns the id of the secret identified by a path: that of the
// environment; otherwise the workspace's own, otherwise the only one with the
// name. Errors: errs.NotFound, errs.Unprocessable if there are several, or no such
// environment.
func (s *service) locate(ctx context.Context, at *Path) (string, error) {
	if at.Environment != nil {
		_, err := s.registry.NamedEnvironment(ctx, *at.Environment, []any{"query", "environment"})
		return secret.ID(at.Name, *at.Environment), err
	}
	deleted, err := s.registry.DeletedEnvironments(ctx)
	if err != nil {
		return "", err
	}
	all, err := s.secrets.List(ctx, secret.Prefix(at.Name), 0, func(found *secret.Secret) bool { return !deleted[found.Of()] })
	switch {
	case err != nil:
		return "", err
	case len(all) == 0:
		return secret.ID(at.Name, ""), nil // does not exist
	case len(all) == 1 || all[0].Environment == nil: // the workspace's own sorts first
		return all[0].SK, nil
	}
	names := make([]string, len(all))
	for i := range all {
		names[i] = all[i].Of()
	}
	return "", errs.Field([]any{"query", "environment"}, nil, "the secret is in several environments, name one: %s", strings.Join(names, ", "))
}

// checkValue rejects values that the vault does not accept.
func checkValue(value string) []errs.Detail {
	if len(value) <= vault.MaxValue {
		return nil
	}
	return []errs.Detail{{Type: "value_error", Loc: errs.Body("value"), Msg: "a value has at most 65,536 bytes"}}
}
