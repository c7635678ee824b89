package template

import (
	"encoding/json"
	"strconv"
	"strings"
)

// pair is the argument of a function that takes two.
func (s *scope) pair(function string, arg any) (first, second any, err error) {
	list, ok := arg.([]any)
	if !ok || len(list) != 2 {
		return nil, nil, s.fail("%s of %v", function, arg)
	}
	return list[0], list[1], nil
}

// list resolves a value that is to be a list.
func (s *scope) list(v any) ([]any, error) {
	r, err := s.resolve(v)
	if err != nil {
		return nil, err
	}
	list, ok := r.([]any)
	if !ok {
		return nil, s.fail("%v is no list", v)
	}
	return list, nil
}

func (s *scope) join(arg any) (any, error) {
	by, of, err := s.pair("Fn::Join", arg)
	if err != nil {
		return nil, err
	}
	between, err := s.text(by)
	if err != nil {
		return nil, err
	}
	parts, err := s.list(of)
	if err != nil {
		return nil, err
	}
	texts := make([]string, len(parts))
	for i, part := range parts {
		if texts[i], err = s.text(part); err != nil {
			return nil, err
		}
	}
	return strings.Join(texts, between), nil
}

func (s *scope) split(arg any) (any, error) {
	by, of, err := s.pair("Fn::Split", arg)
	if err != nil {
		return nil, err
	}
	between, err := s.text(by)
	if err != nil {
		return nil, err
	}
	text, err := s.text(of)
	if err != nil {
		return nil, err
	}
	var out []any
	for part := range strings.SplitSeq(text, between) {
		out = append(out, part)
	}
	return out, nil
}

// choose is Fn::Select.
func (s *scope) choose(arg any) (any, error) {
	at, of, err := s.pair("Fn::Select", arg)
	if err != nil {
		return nil, err
	}
	text, err := s.text(at)
	if err != nil {
		return nil, err
	}
	list, err := s.list(of)
	if err != nil {
		return nil, err
	}
	i, err := strconv.Atoi(text)
	if err != nil || i < 0 || i >= len(list) {
		return nil, s.fail("Fn::Select of element %s of %d", text, len(list))
	}
	return list[i], nil
}

// condition is the value of a condition of the stack.
func (s *scope) condition(name string) (bool, error) {
	c, found := s.stack.Conditions[name]
	if !found {
		return false, s.fail("the stack has no condition %s", name)
	}
	return s.truth(c)
}

// truth resolves a value that is to be true or false.
func (s *scope) truth(v any) (bool, error) {
	r, err := s.resolve(v)
	if err != nil {
		return false, err
	}
	switch r {
	case true, "true":
		return true, nil
	case false, "false":
		return false, nil
	}
	return false, s.fail("%v is no truth value", v)
}

// logic calls the functions of conditions.
func (s *scope) logic(name string, arg any) (any, error) {
	if name == "Condition" {
		return s.condition(arg.(string)) // as intrinsic has it
	}
	list, ok := arg.([]any)
	want := map[string]int{"Fn::If": 3, "Fn::Equals": 2, "Fn::Not": 1}[name]
	if !ok || len(list) == 0 || want != 0 && len(list) != want {
		return nil, s.fail("%s of %v", name, arg)
	}
	switch name {
	case "Fn::If":
		condition, ok := list[0].(string)
		if !ok {
			return nil, s.fail("Fn::If of %v", list[0])
		}
		holds, err := s.condition(condition)
		if err != nil {
			return nil, err
		}
		if holds {
			return s.resolve(list[1])
		}
		return s.resolve(list[2])
	case "Fn::Equals":
		var texts [2]string
		for i := range texts {
			v, err := s.resolve(list[i])
			if err != nil {
				return nil, err
			}
			data, err := json.Marshal(v)
			if err != nil {
				return nil, s.fail("%w", err)
			}
			texts[i] = strings.Trim(string(data), `"`)
		}
		return texts[0] == texts[1], nil
	case "Fn::Not":
		holds, err := s.truth(list[0])
		return !holds, err
	}
	for _, e := range list { // Fn::And, Fn::Or
		holds, err := s.truth(e)
		if err != nil {
			return nil, err
		}
		if holds != (name == "Fn::And") {
			return holds, nil
		}
	}
	return name == "Fn::And", nil
}
