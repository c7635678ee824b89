package template

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// scope resolves values of one stack.
type scope struct {
	*deployment
	stack *Stack
	where string // for errors
}

// noValue is what AWS::NoValue is: the property that has it is as if it were not
// there.
type noValue struct{}

func (s *scope) fail(format string, args ...any) error {
	return fmt.Errorf("template: %s: %w", s.where, fmt.Errorf(format, args...))
}

// resolve returns a value without intrinsic functions.
func (s *scope) resolve(v any) (any, error) {
	switch v := v.(type) {
	case string:
		return s.dynamic(v)
	case []any:
		out := make([]any, 0, len(v))
		for _, e := range v {
			r, err := s.resolve(e)
			if err != nil {
				return nil, err
			}
			if _, none := r.(noValue); !none {
				out = append(out, r)
			}
		}
		return out, nil
	case map[string]any:
		if name, arg, is := intrinsic(v); is {
			r, err := s.call(name, arg)
			if text, is := r.(string); is && err == nil {
				return s.dynamic(text)
			}
			return r, err
		}
		out := make(map[string]any, len(v))
		for key, e := range v {
			r, err := s.resolve(e)
			if err != nil {
				return nil, err
			}
			if _, none := r.(noValue); !none {
				out[key] = r
			}
		}
		return out, nil
	}
	return v, nil
}

// intrinsic is the function that an object of one member calls, if it does.
func intrinsic(v map[string]any) (name string, arg any, is bool) {
	if len(v) != 1 {
		return "", nil, false
	}
	for name, arg = range v {
	}
	if name == "Condition" {
		_, is = arg.(string) // else it is a policy's
		return name, arg, is
	}
	return name, arg, name == "Ref" || strings.HasPrefix(name, "Fn::")
}

func (s *scope) call(name string, arg any) (any, error) {
	switch name {
	case "Ref":
		return s.ref(arg)
	case "Fn::GetAtt":
		return s.getAtt(arg)
	case "Fn::Join":
		return s.join(arg)
	case "Fn::Sub":
		return s.sub(arg)
	case "Fn::Split":
		return s.split(arg)
	case "Fn::Select":
		return s.choose(arg)
	case "Fn::ImportValue":
		return s.importValue(arg)
	case "Fn::FindInMap":
		return s.findInMap(arg)
	case "Fn::Base64":
		text, err := s.text(arg)
		return base64.StdEncoding.EncodeToString([]byte(text)), err
	case "Fn::If", "Fn::Equals", "Fn::Not", "Fn::And", "Fn::Or", "Condition":
		return s.logic(name, arg)
	}
	return nil, s.fail("%s is not known here", name)
}

// ref is the value of a pseudo parameter, a parameter or a resource.
func (s *scope) ref(arg any) (any, error) {
	name, ok := arg.(string)
	if !ok {
		return nil, s.fail("Ref of %v", arg)
	}
	switch name {
	case "AWS::Region":
		return s.env.Region, nil
	case "AWS::AccountId":
		return s.env.AccountID, nil
	case "AWS::Partition":
		return Partition, nil
	case "AWS::URLSuffix":
		return URLSuffix, nil
	case "AWS::StackName":
		return s.stack.Name, nil
	case "AWS::StackId":
		return fmt.Sprintf("arn:%s:cloudformation:%s:%s:stack/%s/local", Partition, s.env.Region, s.env.AccountID, s.stack.Name), nil
	case "AWS::NoValue":
		return noValue{}, nil
	}
	if p, found := s.stack.Parameters[name]; found {
		if given, is := s.env.Parameters[name]; is {
			return given, nil
		}
		if p.Default == nil {
			return nil, s.fail("the parameter %s has no default and was not given", name)
		}
		return p.Default, nil
	}
	m, err := s.named(name)
	if err != nil {
		return nil, err
	}
	return m.Attributes.Ref, nil
}

// named makes the stack's resource of a name.
func (s *scope) named(name string) (*Made, error) {
	r, found := s.stack.Resources[name]
	if !found {
		return nil, s.fail("the stack has no %s", name)
	}
	wanted, err := s.wanted(r)
	if err != nil {
		return nil, err
	}
	if !wanted {
		return nil, s.fail("%s is not made: its condition does not hold", r)
	}
	return s.resource(r)
}

func (s *scope) getAtt(arg any) (any, error) {
	var id, attribute string
	switch arg := arg.(type) {
	case string:
		id, attribute, _ = strings.Cut(arg, ".")
	case []any:
		if len(arg) != 2 {
			return nil, s.fail("Fn::GetAtt of %v", arg)
		}
		id, _ = arg[0].(string)
		var err error
		if attribute, err = s.text(arg[1]); err != nil {
			return nil, err
		}
	}
	m, err := s.named(id)
	if err != nil {
		return nil, err
	}
	value, found := m.Attributes.Att[attribute]
	if !found {
		return nil, s.fail("%s has no attribute %s on this machine", m.Resource, attribute)
	}
	return value, nil
}

func (s *scope) importValue(arg any) (any, error) {
	name, err := s.text(arg)
	if err != nil {
		return nil, err
	}
	v, err := s.imported(name)
	if err != nil {
		return nil, s.fail("%w", err)
	}
	return v, nil
}

var variable = regexp.MustCompile(`\$\{[^}]*\}`)

// sub fills in ${names} of a text: of its own, of resources, of attributes.
func (s *scope) sub(arg any) (any, error) {
	var own map[string]any
	text, plain := arg.(string)
	if pair, is := arg.([]any); is && len(pair) == 2 {
		text, plain = pair[0].(string)
		own, is = pair[1].(map[string]any)
		plain = plain && is
	}
	if !plain {
		return nil, s.fail("Fn::Sub of %v", arg)
	}
	var failed error
	filled := variable.ReplaceAllStringFunc(text, func(match string) string {
		name := match[2 : len(match)-1]
		if literal, is := strings.CutPrefix(name, "!"); is {
			return "${" + literal + "}"
		}
		name = strings.TrimSpace(name)
		var v any = map[string]any{"Ref": name}
		if given, found := own[name]; found {
			v = given
		} else if strings.Contains(name, ".") {
			v = map[string]any{"Fn::GetAtt": name}
		}
		out, err := s.text(v)
		if err != nil && failed == nil {
			failed = err
		}
		return out
	})
	return filled, failed
}

func (s *scope) findInMap(arg any) (any, error) {
	list, ok := arg.([]any)
	if !ok || len(list) != 3 {
		return nil, s.fail("Fn::FindInMap of %v", arg)
	}
	var at any = s.stack.Mappings
	for _, e := range list {
		key, err := s.text(e)
		if err != nil {
			return nil, err
		}
		level, _ := at.(map[string]any)
		if at, ok = level[key]; !ok {
			return nil, s.fail("Fn::FindInMap finds no %s", key)
		}
	}
	return at, nil
}

// text resolves a value that is to be a text, as CloudFormation takes numbers
// and truth values for texts too.
func (s *scope) text(v any) (string, error) {
	r, err := s.resolve(v)
	if err != nil {
		return "", err
	}
	switch r := r.(type) {
	case string:
		return r, nil
	case json.Number:
		return r.String(), nil
	case bool:
		return fmt.Sprint(r), nil
	}
	return "", s.fail("%v is no text", v)
}

var dynamicReference = regexp.MustCompile(`\{\{resolve:([^}]*)\}\}`)

// dynamic fills in references to values kept elsewhere.
func (s *scope) dynamic(text string) (any, error) {
	if !strings.Contains(text, "{{resolve:") {
		return text, nil
	}
	var failed error
	out := dynamicReference.ReplaceAllStringFunc(text, func(match string) string {
		reference := dynamicReference.FindStringSubmatch(match)[1]
		if s.env.Dynamic == nil {
			failed = s.fail("the reference %s cannot be followed", match)
			return ""
		}
		value, err := s.env.Dynamic(reference)
		if err != nil && failed == nil {
			failed = s.fail("%s: %w", match, err)
		}
		return value
	})
	return out, failed
}
