package registry

import (
	"cmp"
	"context"
	"slices"

	"millrace/shared/account/quota"
	"millrace/shared/kit/record"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/ids"
	"millrace/shared/platform/table"
)

// Environment is a place for deployments, runs and secrets, with variables of its
// own. A workspace has the environment default from the start.
type Environment struct {
	record.Meta
	Name        string `table:"name" json:"name"`
	Description string `table:"description,omitempty" json:"description"`
	Color       string `table:"color,omitempty" json:"color"`
	Protected   bool   `table:"protected,omitempty" json:"protected" doc:"Only owners and admins promote into it"`
	Count       int    `table:"variable_count,omitempty" json:"variable_count" doc:"With those that are disabled"`
	// Incarnation is of this creation of the name: what was read of an earlier one is
	// void.
	Incarnation string `table:"incarnation" json:"-"`
	// Variables names the state of its variables.
	Variables string `table:"variables,omitempty" json:"-"`
}

// environmentKind is the kind of record that environments are, by name.
var environmentKind = record.Kind{Folder: "environments", Type: "environment", Noun: "Environment", Limit: quota.Environments}

func (s Store) environments() record.Set[Environment, *Environment] {
	return record.New[Environment](environmentKind, s.records())
}

func (s Store) records() record.Store {
	return record.Store{Table: s.Table, Clock: s.Clock, Quota: s.Quota}
}

// environmentPK is the partition of what belongs to an environment besides its
// record.
func environmentPK(org, name string) string {
	return org + "#env#" + name //guard:environment/tenant drop operand 1
}

// FindEnvironment returns an environment of the workspace, and whether there is
// one of the name.
func (s Store) FindEnvironment(ctx context.Context, name string) (Environment, bool, error) {
	if !ValidName(name) {
		return Environment{}, false, nil
	}
	e, found, err := s.environments().Find(ctx, name)
	if err != nil || found {
		return e, found, err
	}
	if migrated, err := s.migrated(ctx); err != nil || migrated {
		return e, false, err
	}
	if err := s.migrate(ctx); err != nil {
		return e, false, err
	}
	return s.environments().Find(ctx, name)
}

// GetEnvironment returns an environment. Errors: errs.NotFound.
func (s Store) GetEnvironment(ctx context.Context, name string) (Environment, error) {
	e, found, err := s.FindEnvironment(ctx, name)
	if err == nil && !found {
		err = s.NoEnvironment(name)
	}
	return e, err
}

// NoEnvironment is the errs.NotFound of an environment that is not there.
func (s Store) NoEnvironment(name string) error { return s.environments().Absent(name) }

// NamedEnvironment returns an environment that a request names at loc. Errors:
// errs.Unprocessable for an unknown one.
func (s Store) NamedEnvironment(ctx context.Context, name string, loc []any) (Environment, error) {
	e, found, err := s.FindEnvironment(ctx, name)
	if err == nil && !found {
		err = unknownEnvironment(name, loc)
	}
	return e, err
}

func unknownEnvironment(name string, loc []any) error {
	return errs.Field(loc, name, "there is no environment '%s': make it first, or deploy to it", name)
}

// Check returns the write that fails its transaction if the environment was deleted
// meanwhile.
func (e *Environment) Check() table.Write {
	return table.Check{Key: e.Key, If: table.Eq("incarnation", e.Incarnation)} //guard:environment/deleted field If table.Or(table.IsNew(), table.IsStored())
}

// CreateEnvironment makes an environment of what a user sets of it. Errors:
// errs.Conflict if the name is taken, errs.TooMany.
func (s Store) CreateEnvironment(ctx context.Context, e Environment) (Environment, error) {
	if err := s.migrateOnce(ctx); err != nil {
		return e, err
	}
	out, err := s.environments().Write(ctx, e.Name, s.creation(ctx, e, func(Environment) (Environment, error) {
		return e, errs.New(errs.Conflict, "Environment '%s' exists already", e.Name)
	}))
	return out.After, err
}

// creation is the change that makes an environment, unless there is one of the name:
// then known tells what becomes of it.
func (s Store) creation(ctx context.Context, e Environment, known func(Environment) (Environment, error)) record.Change[Environment] {
	return record.Change[Environment]{
		Next: func(now *Environment) (Environment, error) {
			if now != nil {
				return known(*now)
			}
			e.Incarnation = ids.New(s.Clock.Now())
			return e, s.purgeLeft(ctx, e.Name) //guard:environment/left-behind arg 2 "" + "-"
		},
		Also: func(o record.Outcome[Environment]) []table.Write {
			return []table.Write{
				table.Put{Item: VariableSet{Key: variablesKey(tenantOf(ctx), e.Name), Incarnation: o.After.Incarnation}},
				table.Check{Key: deletedKey(tenantOf(ctx), e.Name), If: table.IsNew()}, //guard:environment/name-free drop
			}
		},
	}
}

// UpdateEnvironment changes what a user sets of an environment. Errors:
// errs.NotFound.
func (s Store) UpdateEnvironment(ctx context.Context, name string, edit func(*Environment) error) (Environment, error) {
	if _, err := s.GetEnvironment(ctx, name); err != nil { // makes default, where it has not been stored yet
		return Environment{}, err
	}
	return s.environments().Update(ctx, name, "", edit)
}

// order is the order in which a workspace shows its environments. What it does not
// name comes behind, the oldest first.
type order struct {
	record.Meta
	Names []string `table:"names" json:"order"`
}

// orderKind has one record, of this id.
var orderKind = record.Kind{Folder: "environment-order", Type: environmentKind.Type, Noun: "Order of environments"}

const orderID = "order"

func (s Store) order() record.Set[order, *order] { return record.New[order](orderKind, s.records()) }

// Environments returns all environments in the workspace's order.
func (s Store) Environments(ctx context.Context) ([]Environment, error) {
	all, err := s.environments().List(ctx, "", 0, nil)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(all, func(e Environment) bool { return e.Name == DefaultEnvironment }) {
		if err := s.migrate(ctx); err != nil {
			return nil, err
		}
		if all, err = s.environments().List(ctx, "", 0, nil); err != nil {
			return nil, err
		}
	}
	now, _, err := s.order().Find(ctx, orderID)
	if err != nil {
		return nil, err
	}
	positions := make(map[string]int, len(now.Names))
	for i, name := range now.Names {
		positions[name] = i
	}
	rank := func(e Environment) (int, clock.Millis) {
		if at, ok := positions[e.Name]; ok { //guard:environment/position false
			return at, 0
		}
		if len(positions) == 0 && e.Name == DefaultEnvironment {
			return -1, 0
		}
		return len(positions), e.CreatedAt //guard:environment/new-last return 0, e.CreatedAt
	}
	slices.SortStableFunc(all, func(a, b Environment) int {
		placeA, ageA := rank(a)
		placeB, ageB := rank(b)
		return cmp.Or(cmp.Compare(placeA, placeB), cmp.Compare(ageA, ageB))
	})
	return all, nil
}

// OrderEnvironments sets the order of the environments. Errors: errs.Unprocessable
// unless it names each once.
func (s Store) OrderEnvironments(ctx context.Context, names []string) error {
	all, err := s.Environments(ctx)
	if err != nil {
		return err
	}
	left := make(map[string]bool, len(all))
	for _, e := range all {
		left[e.Name] = true
	}
	var faults []errs.Detail
	for i, name := range names {
		if !left[name] { //guard:environment/order-known false
			faults = append(faults, fault(errs.Body("order", i), name, "there is no such environment, or it is named twice"))
		}
		delete(left, name)
	}
	for _, e := range all {
		if left[e.Name] { //guard:environment/order-complete false
			faults = append(faults, fault(errs.Body("order"), nil, "environment '"+e.Name+"' is missing: name every environment once"))
		}
	}
	if len(faults) > 0 {
		return errs.Validation(faults...)
	}
	_, err = s.order().Write(ctx, orderID, record.Change[order]{Action: "reorder", Next: func(now *order) (next order, err error) {
		if now != nil {
			next = *now
		}
		next.Names = names
		return next, nil
	}})
	return err
}
