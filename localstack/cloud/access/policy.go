// Package access evaluates the IAM policies of roles as AWS does, and holds the
// functions of a deployment to them: a [Gate] before the emulated services,
// which check no permission, reads which actions a request takes on which
// resources, and passes on what the role of its caller allows.
//
// It knows what the synthesized templates use. Anything else, an operator of
// conditions, a condition key, an element of a statement, an operation of a
// service, is an error, so that nothing is allowed by mistake.
package access

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Call is one action on one resource. A request to AWS is one or more of them.
type Call struct {
	Action   string // dynamodb:GetItem
	Resource string // an ARN
	Context  Context
	Parts    bool // of an object, which is uploaded in parts
}

// Context is the values of condition keys. A key that is not in the request is
// absent.
type Context map[string][]string

// Decision is what a policy says of a call.
type Decision struct {
	Allowed  bool
	Explicit bool   // a statement denies it
	Sid      string // of the statement that decided; empty if none allows the call
}

// Policy is the statements of a role.
type Policy struct{ statements []statement }

// words is a text or a list of texts.
type words []string

// UnmarshalJSON implements json.Unmarshaler.
func (w *words) UnmarshalJSON(data []byte) error {
	var one string
	if err := json.Unmarshal(data, &one); err == nil {
		*w = words{one}
		return nil
	}
	return json.Unmarshal(data, (*[]string)(w))
}

type statement struct {
	Sid, Effect         string
	Action, NotAction   words
	Resource            words
	Condition           map[string]map[string]words
	conditions          []condition
	actions, notActions []string // in lower case
}

// Parse reads policy documents, as decoded JSON. A role's policies are one:
// each statement of any of them counts.
func Parse(documents ...any) (Policy, error) {
	var p Policy
	for _, document := range documents {
		data, err := json.Marshal(document)
		if err != nil {
			return Policy{}, fmt.Errorf("access: %w", err)
		}
		var read struct {
			Version   string
			Statement []statement
		}
		dec := json.NewDecoder(bytes.NewReader(data))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&read); err != nil {
			return Policy{}, fmt.Errorf("access: %w", err)
		}
		if read.Version != "2012-10-17" {
			return Policy{}, fmt.Errorf("access: policies of the version %q are not known here", read.Version)
		}
		for _, s := range read.Statement {
			if err := s.prepare(); err != nil {
				return Policy{}, fmt.Errorf("access: statement %s: %w", s.Sid, err)
			}
			p.statements = append(p.statements, s)
		}
	}
	return p, nil
}

func (s *statement) prepare() (err error) {
	switch {
	case s.Effect != "Allow" && s.Effect != "Deny":
		return fmt.Errorf("the effect %q is not known", s.Effect)
	case (len(s.Action) == 0) == (len(s.NotAction) == 0):
		return errors.New("it has either Action or NotAction")
	case len(s.Resource) == 0:
		return errors.New("it has no Resource")
	}
	s.actions, s.notActions = lower(s.Action), lower(s.NotAction)
	s.conditions, err = conditions(s.Condition)
	return err
}

func lower(list []string) []string {
	out := make([]string, len(list))
	for i, text := range list {
		out[i] = strings.ToLower(text)
	}
	return out
}

// Decide evaluates a call: a statement that denies it wins over all that allow
// it, and what none allows is denied. The error is that of a condition that
// cannot be evaluated.
func (p Policy) Decide(c Call) (Decision, error) {
	out := Decision{}
	for _, s := range p.statements {
		matched, err := s.matches(c)
		switch {
		case err != nil:
			return Decision{}, fmt.Errorf("access: statement %s: %w", s.Sid, err)
		case !matched:
		case s.Effect == "Deny":
			return Decision{Explicit: true, Sid: s.Sid}, nil
		case !out.Allowed:
			out = Decision{Allowed: true, Sid: s.Sid}
		}
	}
	return out, nil
}

func (s *statement) matches(c Call) (bool, error) {
	action := strings.ToLower(c.Action)
	acts := anyLike(s.actions, action)
	if len(s.notActions) > 0 {
		acts = !anyLike(s.notActions, action)
	}
	if !acts || !s.covers(c) {
		return false, nil
	}
	for _, condition := range s.conditions {
		holds, err := condition.holds(c.Context)
		if err != nil || !holds {
			return false, err
		}
	}
	return true, nil
}

// covers reports whether one of the statement's resources is that of the call.
func (s *statement) covers(c Call) bool {
	for _, pattern := range s.Resource {
		if filled, ok := fill(pattern, c.Context); ok && likeARN(filled, c.Resource) {
			return true
		}
	}
	return false
}

// Permissions returns what the statements allow, each action of each of them,
// as "Sid action".
func (p Policy) Permissions() []string {
	var out []string
	for _, s := range p.statements {
		if s.Effect == "Allow" {
			for _, action := range s.Action {
				out = append(out, s.Sid+" "+action)
			}
		}
	}
	return out
}
