package flowspec

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"millrace/shared/platform/budget"
)

// schema is a compiled JSON Schema of parameters. It never loads other
// documents.
type schema struct {
	root     map[string]any // the document, nil if there is none
	compiled *jsonschema.Schema
	optional func() (*jsonschema.Schema, error) // without required properties at the top level
	meter    *meter
}

const schemaURL = "mem:///parameters.json"

// refusingLoader rejects every reference to another document.
type refusingLoader struct{}

func (refusingLoader) Load(string) (any, error) {
	return nil, errors.New("references to other documents are not allowed")
}

// compileSchema compiles a schema within the limits of [checkSchema]. The error
// is that of the limits, the library's, or that of b.
func compileSchema(b *budget.Budget, raw json.RawMessage) (*schema, error) {
	s := &schema{meter: newMeter()}
	if len(raw) == 0 || bytes.Equal(raw, []byte("null")) {
		return s, nil
	}
	if len(raw) > maxSchemaBytes {
		return nil, fmt.Errorf("it may have at most %d bytes, this one has %d", maxSchemaBytes, len(raw))
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
	cost, err := checkSchema(root)
	if err != nil {
		return nil, err
	}
	if err := b.Spend(cost); err != nil {
		return nil, err
	}
	if s.compiled, err = s.meter.compile(b, root); err != nil {
		return nil, err
	}
	s.optional = sync.OnceValues(func() (*jsonschema.Schema, error) {
		relaxed := maps.Clone(root)
		delete(relaxed, "required")
		return s.meter.compile(budget.Unlimited(), relaxed)
	})
	return s, nil
}

// smallSchema is the size in bytes up to which a schema is compiled without a
// turn, about 2 ms.
const smallSchema = 8 << 10

// compileLater returns a function that compiles a registered schema on first
// use. Its cost is not charged, but a large schema takes a turn of the budget.
func compileLater(raw json.RawMessage) func(*budget.Budget) (*schema, error) {
	var compiled atomic.Bool
	compile := sync.OnceValues(func() (*schema, error) {
		defer compiled.Store(true)
		return compileSchema(budget.Unlimited(), raw)
	})
	return func(b *budget.Budget) (*schema, error) {
		if len(raw) > smallSchema && !compiled.Load() {
			if err := b.Hold(); err != nil {
				return nil, err
			}
		}
		return compile()
	}
}

// compile compiles a schema so that applying it charges the meter's budget.
func (m *meter) compile(b *budget.Budget, root map[string]any) (compiled *jsonschema.Schema, err error) {
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(refusingLoader{})
	c.UseRegexpEngine(m.pattern)
	var all []*jsonschema.Schema
	c.RegisterVocabulary(&jsonschema.Vocabulary{
		URL: "mem:///meter",
		Compile: func(ctx *jsonschema.CompilerContext, _ map[string]any) (jsonschema.SchemaExt, error) {
			all = append(all, ctx.Enqueue(nil)) // the schema being compiled
			return nil, nil
		},
	})
	c.AssertVocabs()
	err = b.Do("compile a JSON Schema", func() error {
		if err := c.AddResource(schemaURL, root); err != nil {
			return err
		}
		compiled, err = c.Compile(schemaURL)
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := checkRules(all); err != nil {
		return nil, err
	}
	for _, s := range all {
		m.attach(s)
	}
	return compiled, nil
}

// validate returns a *jsonschema.ValidationError for a mismatch, or the error
// of the budget.
func (m *meter) validate(ctx context.Context, b *budget.Budget, s *jsonschema.Schema, v any, depth int) error {
	b.Rest()
	select { // the meter serves one validation at a time
	case m.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	m.budget, m.depth = b, depth
	defer func() {
		m.budget = nil
		<-m.turn
	}()
	return b.Do("validate parameters", func() error { return s.Validate(v) })
}
