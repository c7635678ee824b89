package attack

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"millrace/localstack/client"
)

// document is the part of the server's OpenAPI document that the attacker uses.
type document struct {
	Paths      map[string]map[string]*operation `json:"paths"`
	Components struct {
		Schemas map[string]*schema `json:"schemas"`
	} `json:"components"`
}

type operation struct {
	ID         string `json:"operationId"`
	Parameters []struct {
		Name   string  `json:"name"`
		In     string  `json:"in"`
		Schema *schema `json:"schema"`
	} `json:"parameters"`
	Body struct {
		Content map[string]struct {
			Schema *schema `json:"schema"`
		} `json:"content"`
	} `json:"requestBody"`
	Responses map[string]json.RawMessage `json:"responses"`

	method, path string
}

// schema is the part of JSON Schema that the document uses.
type schema struct {
	Ref                  string             `json:"$ref"`
	Type                 types              `json:"type"`
	Enum                 []any              `json:"enum"`
	Properties           map[string]*schema `json:"properties"`
	Required             []string           `json:"required"`
	Items                *schema            `json:"items"`
	AdditionalProperties any                `json:"additionalProperties"`
	Minimum              *float64           `json:"minimum"`
	Maximum              *float64           `json:"maximum"`
}

// types is one type or a list of them.
type types []string

// UnmarshalJSON accepts one type or a list.
func (t *types) UnmarshalJSON(data []byte) error {
	var one string
	if json.Unmarshal(data, &one) == nil {
		*t = types{one}
		return nil
	}
	return json.Unmarshal(data, (*[]string)(t))
}

// describe reads the server's document and returns its operations in order.
func (a *attacker) describe() (doc document, all []*operation, err error) {
	public := &client.Client{BaseURL: a.Credentials.BaseURL}
	if err = public.Do(a.ctx, "GET", "/openapi.json", nil, &doc); err != nil {
		return doc, nil, err
	}
	for _, path := range slices.Sorted(maps.Keys(doc.Paths)) {
		for _, method := range slices.Sorted(maps.Keys(doc.Paths[path])) {
			op := doc.Paths[path][method]
			op.method, op.path = strings.ToUpper(method), path
			all = append(all, op)
		}
	}
	return doc, all, nil
}

// names are values to draw from, by parameter name.
type names map[string][]any

// drawer draws values that mostly match schemas.
type drawer struct {
	*rand.Rand
	schemas map[string]*schema
	names   names
}

// value draws a value for a named field.
func (d *drawer) value(name string, s *schema, depth int) any {
	if known := d.names[name]; len(known) > 0 && d.IntN(5) > 0 {
		return known[d.IntN(len(known))]
	}
	for s != nil && s.Ref != "" {
		s = d.schemas[s.Ref[strings.LastIndexByte(s.Ref, '/')+1:]]
	}
	if s == nil || depth > 5 {
		return d.word()
	}
	if len(s.Enum) > 0 {
		return s.Enum[d.IntN(len(s.Enum))]
	}
	kind := "any"
	if len(s.Type) > 0 {
		kind = s.Type[d.IntN(len(s.Type))]
	}
	switch kind {
	case "object":
		out := object{}
		for _, property := range slices.Sorted(maps.Keys(s.Properties)) {
			if slices.Contains(s.Required, property) || d.IntN(2) == 0 {
				out[property] = d.value(property, s.Properties[property], depth+1)
			}
		}
		if s.AdditionalProperties != nil && s.AdditionalProperties != false {
			for range d.IntN(3) {
				out[d.word()] = d.word()
			}
		}
		return out
	case "array":
		out := []any{}
		for range d.IntN(4) {
			out = append(out, d.value(name, s.Items, depth+1))
		}
		return out
	case "integer", "number":
		return d.number(s)
	case "boolean":
		return d.IntN(2) == 0
	case "null":
		return nil
	case "string":
		return d.word()
	}
	return nasty[d.IntN(len(nasty))]
}

func (d *drawer) number(s *schema) any {
	low, high := 0, 1000
	if s.Minimum != nil {
		low = int(*s.Minimum)
	}
	if s.Maximum != nil {
		high = int(*s.Maximum)
	}
	return low + d.IntN(max(high-low, 1))
}

// word returns a string that a user might send.
func (d *drawer) word() string {
	words := []string{"", "a", "default", "scratch", "1", "latest", "2026-01-02T03:04:05Z", "python", "nano", "flows.read", "ÿ", "日本", "a b", "null"}
	return words[d.IntN(len(words))]
}
