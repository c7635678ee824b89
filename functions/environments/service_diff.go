package environments

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"millrace/shared/run/registry"
	"millrace/shared/run/secret"
)

// contents are what two environments are compared by.
type contents struct {
	variables map[string]VariableState
	flows     map[string][]registry.Deployment // by flow, in order of their names
}

// read returns the contents of an environment. Errors: errs.NotFound.
func (s *service) read(ctx context.Context, environment string) (contents, error) {
	out := contents{map[string]VariableState{}, map[string][]registry.Deployment{}}
	all, err := s.store.Variables(ctx, environment)
	if err != nil {
		return out, err
	}
	for _, v := range all {
		out.variables[v.Key] = VariableState{v.Value, v.Enabled}
	}
	deployments, err := s.store.DeploymentsIn(ctx, environment)
	for _, d := range deployments {
		out.flows[d.FlowName] = append(out.flows[d.FlowName], d)
	}
	return out, err
}

// diff compares two environments. Errors: errs.NotFound.
func (s *service) diff(ctx context.Context, in *diffIn) (out EnvironmentDiffResponse, err error) {
	from, err := s.read(ctx, in.Name)
	if err != nil {
		return out, err
	}
	to, err := s.read(ctx, in.Target)
	if err != nil {
		return out, err
	}
	secretsFrom, err := s.secretNames(ctx, in.Name)
	if err != nil {
		return out, err
	}
	secretsTo, err := s.secretNames(ctx, in.Target)
	if err != nil {
		return out, err
	}
	out.Variables.Added, out.Variables.Removed, out.Variables.Changed = split(from.variables, to.variables,
		func(key string, a, b *VariableState) (VariableDiff, bool) {
			return VariableDiff{Key: key, From: a, To: b}, a == nil || b == nil || *a != *b
		})
	out.Secrets.Added, out.Secrets.Removed, out.Secrets.Changed = split(secretsFrom, secretsTo,
		func(name string, a, b *struct{}) (string, bool) { return name, a == nil || b == nil })
	out.Deployments.Added, out.Deployments.Removed, out.Deployments.Changed = split(from.flows, to.flows,
		func(flow string, a, b *[]registry.Deployment) (FlowDiff, bool) {
			diff := FlowDiff{FlowName: flow, From: pinned(a), To: pinned(b)}
			return diff, !slices.Equal(versions(diff.From), versions(diff.To))
		})
	return out, nil
}

// split compares two sets of things by name: of those that differ, what only the
// second has, what only the first has, and what both have.
func split[T, D any](from, to map[string]T, differ func(name string, a, b *T) (D, bool)) (added, removed, changed []D) {
	added, removed, changed = []D{}, []D{}, []D{}
	names := slices.Collect(maps.Keys(from))
	for name := range to {
		if _, both := from[name]; !both {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		a, b := at(from, name), at(to, name)
		d, differs := differ(name, a, b)
		switch {
		case !differs:
		case a == nil:
			added = append(added, d)
		case b == nil:
			removed = append(removed, d)
		default:
			changed = append(changed, d)
		}
	}
	return added, removed, changed
}

func at[T any](m map[string]T, name string) *T {
	v, ok := m[name]
	if !ok {
		return nil
	}
	return &v
}

// pinned shows deployments.
func pinned(all *[]registry.Deployment) []PinnedVersion {
	out := []PinnedVersion{}
	if all != nil {
		for _, d := range *all {
			out = append(out, PinnedVersion{d.Name, d.FlowVersion})
		}
	}
	return out
}

// versions are the versions of deployments, each once.
func versions(all []PinnedVersion) []string {
	out := make([]string, len(all))
	for i, d := range all {
		out[i] = d.FlowVersion
	}
	slices.SortFunc(out, cmp.Compare[string])
	return slices.Compact(out)
}

// secretNames are the names of an environment's own secrets.
func (s *service) secretNames(ctx context.Context, environment string) (map[string]struct{}, error) {
	all, err := secret.List(ctx, s.secrets, func(x *secret.Secret) bool { return x.Of() == environment })
	out := make(map[string]struct{}, len(all))
	for _, x := range all {
		out[x.Name] = struct{}{}
	}
	return out, err
}
