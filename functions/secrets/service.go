package secrets

import (
	"context"
	"strings"

	"millrace/shared/account/tenant"
	"millrace/shared/kit/record"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/vault"
	"millrace/shared/run/registry"
	"millrace/shared/run/secret"
)

// service implements the rules of secrets.
type service struct {
	secrets record.Set[secret.Secret, *secret.Secret]
	vault   vault.Vault
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
	return s.secrets.Create(ctx, secret.ID(made.Name, made.Of()), made)
}

// list returns secrets without their values.
func (s *service) list(ctx context.Context, in *listIn) (SecretListResponse, error) {
	all, err := s.secrets.List(ctx, "", in.Limit, func(found *secret.Secret) bool {
		found.Sealed = nil // saves memory: a value may have 64 KB
		return in.Environment == nil || found.Of() == *in.Environment
	})
	return SecretListResponse{Items: all}, err
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
	out, err := s.secrets.Write(ctx, to, record.Change[secret.Secret]{
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
	})
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
// name. Errors: errs.NotFound, errs.Unprocessable if there are several.
func (s *service) locate(ctx context.Context, at *Path) (string, error) {
	if at.Environment != nil {
		return secret.ID(at.Name, *at.Environment), nil
	}
	all, err := s.secrets.List(ctx, secret.Prefix(at.Name), 0, nil)
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
