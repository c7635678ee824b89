package expr

import (
	"maps"
	"slices"
	"strings"
)

// Function describes a function of expressions, for their reference.
type Function struct {
	Name  string   // "size", "math.abs"
	Forms []string // signatures: "string.charAt(int) -> string"
	Doc   string   // a sentence, "" for none
}

// typeNames replaces CEL's names of types by those that authors know.
var typeNames = strings.NewReplacer("google.protobuf.Timestamp", "timestamp", "google.protobuf.Duration", "duration", "optional_type(", "optional(")

// Functions returns the functions by name, without operators and functions that
// only the compiler uses.
func Functions() ([]Function, error) {
	env, err := environment()
	if err != nil {
		return nil, err
	}
	declared := env.Functions()
	var out []Function
	for _, name := range slices.Sorted(maps.Keys(declared)) {
		if name == "in" || strings.ContainsAny(name, "@_!") {
			continue
		}
		doc := declared[name].Documentation()
		f := Function{Name: name, Doc: typeNames.Replace(strings.Join(strings.Fields(doc.Description), " "))}
		for _, form := range doc.Children {
			f.Forms = append(f.Forms, typeNames.Replace(form.Signature))
		}
		out = append(out, f)
	}
	return out, nil
}

// spaces are the namespaces of macros that have one: the library has only the
// last part of a name.
var spaces = map[string]string{"bind": "cel.", "greatest": "math.", "least": "math."}

// Macros returns the names of macros, such as filter and has, sorted.
func Macros() ([]string, error) {
	env, err := environment()
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for _, macro := range env.Macros() {
		names[spaces[macro.Function()]+macro.Function()] = true
	}
	return slices.Sorted(maps.Keys(names)), nil
}
