package registry

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"millrace/shared/kit/record"
	"millrace/shared/platform/blob"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/ids"
	"millrace/shared/platform/table"
)

// The limits of an environment's variables.
const (
	MaxVariables     = 200
	MaxVariableBytes = 4 << 10 // of a value
	maxVariableJSON  = 8 << 20 // of all, as JSON, whose escapes lengthen them
)

// VariableFolder is the folder of the object store for variables that are too large
// for an item.
const VariableFolder = "environments"

// Variable is a variable of an environment.
type Variable struct {
	Key       string       `json:"key"`
	Value     string       `json:"value"`
	Enabled   bool         `json:"enabled" doc:"A disabled variable is not seen by runs"`
	UpdatedAt clock.Millis `json:"updated_at"`
	UpdatedBy string       `json:"updated_by"`
}

// VariableSet is the stored variables of an environment, which is what a new run
// reads of it. An environment has one as long as it is there.
type VariableSet struct {
	table.Key
	Incarnation string `table:"incarnation"`
	Content     string `table:"content,omitempty"`    // JSON, up to InlineBytes
	ObjectKey   string `table:"object_key,omitempty"` // of larger ones; no two states have the same
}

func variablesKey(org, environment string) table.Key {
	return table.Key{PK: environmentPK(org, environment), SK: "variables"}
}

// load returns the variables of a set. Errors: blob.ErrNotFound if they were
// changed since the set was read.
func (s Store) load(ctx context.Context, set *VariableSet) (all []Variable, err error) {
	content := []byte(set.Content)
	if set.ObjectKey != "" {
		content, _, err = blob.GetBytes(ctx, s.Blob, set.ObjectKey, maxVariableJSON)
		if err != nil {
			return nil, fmt.Errorf("read variables: %w", err)
		}
	}
	if len(content) == 0 {
		return nil, nil
	}
	if err := json.Unmarshal(content, &all); err != nil {
		return nil, fmt.Errorf("read variables: %w", err)
	}
	return all, nil
}

// Variables returns the variables of an environment in order of their keys. Errors:
// errs.NotFound.
func (s Store) Variables(ctx context.Context, name string) ([]Variable, error) {
	if _, err := s.GetEnvironment(ctx, name); err != nil {
		return nil, err
	}
	const tries = 3
	for try := 1; ; try++ {
		set, found, err := load[VariableSet](ctx, s.Table, variablesKey(tenantOf(ctx), name))
		if err != nil {
			return nil, err
		}
		if !found {
			return nil, s.environments().Absent(name)
		}
		all, err := s.load(ctx, &set)
		if try == tries || !errors.Is(err, blob.ErrNotFound) {
			return all, err
		}
	}
}

// ChangeVariables changes the variables of an environment as edit says, which gets
// them by key and may be called several times; what it leaves as it is keeps its
// author. metadata is added to the audit entry. Errors: errs.NotFound, and those of
// edit.
func (s Store) ChangeVariables(
	ctx context.Context, name, action string, metadata map[string]any, edit func(map[string]Variable) error,
) ([]Variable, error) {
	org := tenantOf(ctx)
	if _, err := s.GetEnvironment(ctx, name); err != nil {
		return nil, err
	}
	var next []Variable
	var was, is VariableSet
	entry := map[string]any{}
	for k, v := range metadata {
		entry[k] = v
	}
	out, err := s.environments().Write(ctx, name, record.Change[Environment]{
		Action: action, Metadata: entry,
		Next: func(now *Environment) (Environment, error) {
			if now == nil {
				return Environment{}, s.environments().Absent(name)
			}
			e := *now
			var err error
			if was, _, err = load[VariableSet](ctx, s.Table, variablesKey(org, name)); err != nil {
				return e, err
			}
			before, err := s.load(ctx, &was)
			if errors.Is(err, blob.ErrNotFound) {
				err = table.ErrConflict // they are being changed
			}
			if err != nil {
				return e, err
			}
			var changes []variableChange
			next, changes, err = s.edited(ctx, before, edit)
			if err != nil || len(changes) == 0 {
				return e, err
			}
			entry["variables"] = changes
			e.Variables, e.Count = ids.New(s.Clock.Now()), len(next)
			is, err = s.keep(ctx, org, &e, next)
			return e, err
		},
		Also: func(record.Outcome[Environment]) []table.Write { return []table.Write{table.Put{Item: is}} },
	})
	if err == nil && out.Changed {
		s.dropObject(ctx, was.ObjectKey)
	}
	return next, err
}

// variableChange is one as audit entries show it.
type variableChange struct {
	Key    string         `json:"key"`
	Before *variableState `json:"before"`
	After  *variableState `json:"after"`
}

type variableState struct {
	Value   string `json:"value"`
	Enabled bool   `json:"enabled"`
}

// edited returns variables after an edit, in order of their keys, and what it
// changed.
func (s Store) edited(ctx context.Context, before []Variable, edit func(map[string]Variable) error) ([]Variable, []variableChange, error) {
	byKey := make(map[string]Variable, len(before))
	for _, v := range before {
		byKey[v.Key] = v
	}
	if err := edit(byKey); err != nil {
		return nil, nil, err
	}
	var changes []variableChange
	old := make(map[string]Variable, len(before))
	for _, v := range before {
		old[v.Key] = v
		if _, stays := byKey[v.Key]; !stays {
			changes = append(changes, variableChange{Key: v.Key, Before: &variableState{v.Value, v.Enabled}})
		}
	}
	next := make([]Variable, 0, len(byKey))
	for key, v := range byKey {
		was, had := old[key]
		if !had || was.Value != v.Value || was.Enabled != v.Enabled {
			change := variableChange{Key: key, After: &variableState{v.Value, v.Enabled}}
			if had {
				change.Before = &variableState{was.Value, was.Enabled}
			}
			changes = append(changes, change)
			was = Variable{Key: key, Value: v.Value, Enabled: v.Enabled, UpdatedAt: clock.ToMillis(s.Clock.Now()), UpdatedBy: actorOf(ctx)}
		}
		next = append(next, was)
	}
	slices.SortFunc(next, func(a, b Variable) int { return cmp.Compare(a.Key, b.Key) })
	slices.SortFunc(changes, func(a, b variableChange) int { return cmp.Compare(a.Key, b.Key) })
	return next, changes, nil
}

// keep returns the item that variables are stored in, and stores large ones.
func (s Store) keep(ctx context.Context, org string, e *Environment, all []Variable) (VariableSet, error) {
	set := VariableSet{Key: variablesKey(org, e.Name), Incarnation: e.Incarnation}
	content, err := json.Marshal(all)
	if err != nil {
		return set, fmt.Errorf("store variables: %w", err)
	}
	if len(content) <= InlineBytes {
		set.Content = string(content)
		return set, nil
	}
	if set.ObjectKey, err = blob.Key(org, VariableFolder, e.Variables+".json"); err != nil {
		return set, fmt.Errorf("store variables: %w", err)
	}
	if _, err := blob.PutBytes(ctx, s.Blob, set.ObjectKey, content, blob.PutOptions{ContentType: "application/json"}); err != nil {
		return set, fmt.Errorf("store variables: %w", err)
	}
	return set, nil
}

// dropObject removes variables that nothing names any more. What a failure leaves is
// never read, so it is only logged.
func (s Store) dropObject(ctx context.Context, key string) {
	if key == "" {
		return
	}
	if err := s.Blob.Delete(ctx, key); err != nil {
		s.log().WarnContext(ctx, "an object with earlier variables was left behind", "key", key, "error", err)
	}
}
