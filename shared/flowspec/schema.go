package flowspec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// schema is a compiled JSON Schema of parameters. Nothing outside of it is
// ever loaded.
type schema struct {
	root     map[string]any // the document, nil for none
	compiled *jsonschema.Schema
	optional func() (*jsonschema.Schema, error) // nothing required at the top
	meter    *meter
}

// maxSchemaSteps bounds one validation: subschemas applied. References that
// double at each level would never end.
const maxSchemaSteps = 200_000

const schemaURL = "mem:///parameters.json"

// refusingLoader answers every reference to another document.
type refusingLoader struct{}

func (refusingLoader) Load(string) (any, error) {
	return nil, errors.New("references to other documents are not allowed")
}

func compileSchema(raw json.RawMessage) (*schema, error) {
	s := &schema{meter: &meter{}}
	if len(raw) == 0 || bytes.Equal(raw, []byte("null")) {
		return s, nil
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	root, ok := doc.(map[string]any)
	if !ok {
		return nil, errors.New("parameters must be an object")
	}
	s.root = root
	if s.compiled, err = s.meter.compile(root); err != nil {
		return nil, err
	}
	s.optional = sync.OnceValues(func() (*jsonschema.Schema, error) {
		relaxed := maps.Clone(root)
		delete(relaxed, "required")
		return s.meter.compile(relaxed)
	})
	return s, nil
}

// meter counts the subschemas that a validation applies and stops a runaway
// one. It belongs to one schema: validations take turns.
type meter struct {
	mu    sync.Mutex
	steps int
}

type tooManySteps struct{}

// Validate implements jsonschema.SchemaExt.
func (m *meter) Validate(*jsonschema.ValidatorContext, any) {
	if m.steps++; m.steps > maxSchemaSteps {
		panic(tooManySteps{})
	}
}

func (m *meter) compile(root map[string]any) (_ *jsonschema.Schema, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the schema cannot be compiled")
		}
	}()
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(refusingLoader{})
	c.RegisterVocabulary(&jsonschema.Vocabulary{
		URL:     "mem:///meter",
		Compile: func(*jsonschema.CompilerContext, map[string]any) (jsonschema.SchemaExt, error) { return m, nil },
	})
	c.AssertVocabs()
	if err := c.AddResource(schemaURL, root); err != nil {
		return nil, err
	}
	return c.Compile(schemaURL)
}

var errRunaway = errors.New("the schema applies too many rules to these parameters")

// validate returns a *jsonschema.ValidationError for what does not match.
func (m *meter) validate(s *jsonschema.Schema, v any) (err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.steps = 0
	defer func() {
		if r := recover(); r != nil {
			err = errRunaway
		}
	}()
	return s.Validate(v)
}
