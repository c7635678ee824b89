package environments

import (
	"context"
	"encoding/json"
	"maps"
	"regexp"
	"slices"

	"millrace/shared/platform/errs"
	"millrace/shared/run/registry"
)

var variableKey = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

const maxVariableKey = 128

// variables lists an environment's variables. Errors: errs.NotFound.
func (s *service) variables(ctx context.Context, in *Path) (VariablesResponse, error) {
	all, err := s.store.Variables(ctx, in.Name)
	return variablesResponse(all), err
}

func variablesResponse(all []registry.Variable) VariablesResponse {
	return VariablesResponse{Items: append([]registry.Variable{}, all...)}
}

// putVariables replaces all variables. Errors: errs.NotFound, errs.Unprocessable.
func (s *service) putVariables(ctx context.Context, in *putVariablesIn) (VariablesResponse, error) {
	if faults := checkVariables(in.Body.Variables); len(faults) > 0 {
		return VariablesResponse{}, errs.Validation(faults...)
	}
	return s.change(ctx, in.Name, "update_variables", func(now map[string]registry.Variable) error {
		maps.DeleteFunc(now, func(key string, _ registry.Variable) bool { _, stays := in.Body.Variables[key]; return !stays })
		merge(now, in.Body.Variables)
		return checkCount(now)
	})
}

// patchVariables changes some variables. Errors: errs.NotFound,
// errs.Unprocessable.
func (s *service) patchVariables(ctx context.Context, in *patchVariablesIn) (VariablesResponse, error) {
	values, gone := map[string]string{}, []string{}
	var faults []errs.Detail
	for _, key := range slices.Sorted(maps.Keys(in.Body.Variables)) {
		var value *string
		switch err := json.Unmarshal(in.Body.Variables[key], &value); {
		case err != nil:
			faults = append(faults, errs.Detail{
				Type: "string_type", Loc: errs.Body("variables", key), Msg: "a variable's value is a text, or null to delete it", Input: in.Body.Variables[key],
			})
		case value == nil:
			gone = append(gone, key)
		default:
			values[key] = *value
		}
	}
	if faults = append(faults, checkVariables(values)...); len(faults) > 0 {
		return VariablesResponse{}, errs.Validation(faults...)
	}
	return s.change(ctx, in.Name, "update_variables", func(now map[string]registry.Variable) error {
		for _, key := range gone {
			delete(now, key)
		}
		merge(now, values)
		return checkCount(now)
	})
}

// deleteVariable deletes a variable. Errors: errs.NotFound.
func (s *service) deleteVariable(ctx context.Context, in *VariablePath) (DeletedVariable, error) {
	_, err := s.change(ctx, in.Name, "delete_variable", func(now map[string]registry.Variable) error {
		if _, ok := now[in.Key]; !ok {
			return noVariable(in)
		}
		delete(now, in.Key)
		return nil
	})
	return DeletedVariable{Status: "deleted", Key: in.Key}, err
}

// toggleVariable enables or disables a variable. Errors: errs.NotFound.
func (s *service) toggleVariable(ctx context.Context, in *toggleVariableIn) (out registry.Variable, err error) {
	all, err := s.change(ctx, in.Name, "toggle_variable", func(now map[string]registry.Variable) error {
		v, ok := now[in.Key]
		if !ok {
			return noVariable(&in.VariablePath)
		}
		v.Enabled = !v.Enabled
		if in.Body != nil && in.Body.Enabled != nil {
			v.Enabled = *in.Body.Enabled
		}
		now[in.Key] = v
		return nil
	})
	for _, v := range all.Items {
		if v.Key == in.Key {
			out = v
		}
	}
	return out, err
}

func (s *service) change(ctx context.Context, environment, action string, edit func(map[string]registry.Variable) error) (VariablesResponse, error) {
	all, err := s.store.ChangeVariables(ctx, environment, action, nil, edit)
	return variablesResponse(all), err
}

// merge gives variables their values; a new one is enabled.
func merge(into map[string]registry.Variable, values map[string]string) {
	for key, value := range values {
		v, ok := into[key]
		if !ok {
			v.Enabled = true
		}
		v.Value = value
		into[key] = v
	}
}

func noVariable(at *VariablePath) error {
	return errs.New(errs.NotFound, "Environment '%s' has no variable '%s'", at.Name, at.Key)
}

// checkVariables lists what is wrong with keys and values.
func checkVariables(values map[string]string) (faults []errs.Detail) {
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if !variableKey.MatchString(key) || len(key) > maxVariableKey {
			faults = append(faults, errs.Detail{
				Type: "value_error", Loc: errs.Body("variables", key), Msg: "a variable's key has 1 to 128 letters, digits and '_', and begins with no digit", Input: key,
			})
		}
		if len(values[key]) > registry.MaxVariableBytes {
			faults = append(faults, errs.Detail{
				Type: "value_error", Loc: errs.Body("variables", key), Msg: "a variable's value has at most 4,096 bytes", Input: len(values[key]),
			})
		}
	}
	return faults
}

// checkCount refuses more variables than an environment has.
func checkCount(all map[string]registry.Variable) error {
	if len(all) <= registry.MaxVariables { //guard:environment/variables true
		return nil
	}
	return errs.Field(errs.Body("variables"), len(all), "an environment has at most %d variables", registry.MaxVariables)
}
