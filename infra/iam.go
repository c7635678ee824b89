package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
)

// printPermissions writes what the roles of a template may do, a line for each
// action of each statement. Given an older template, too, it writes only the
// lines that went (-) or came (+).
func printPermissions(w io.Writer, paths []string) error {
	if len(paths) < 1 || len(paths) > 2 {
		return fmt.Errorf("iam: give a template, and an older one to compare it with")
	}
	now, err := permissionLines(paths[0])
	if err != nil {
		return err
	}
	if len(paths) == 1 {
		for _, line := range slices.Sorted(maps.Keys(now)) {
			fmt.Fprintln(w, line)
		}
		return nil
	}
	before, err := permissionLines(paths[1])
	if err != nil {
		return err
	}
	all := maps.Clone(now)
	maps.Copy(all, before)
	for _, line := range slices.Sorted(maps.Keys(all)) {
		switch {
		case !now[line]:
			fmt.Fprintln(w, "-", line)
		case !before[line]:
			fmt.Fprintln(w, "+", line)
		}
	}
	return nil
}

// permissionLines returns the permissions of a template's roles: "Role effect
// action on resources [conditions]".
func permissionLines(path string) (map[string]bool, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var template struct {
		Resources map[string]struct {
			Type       string
			Properties struct {
				Policies []struct {
					PolicyDocument struct {
						Statement []struct {
							Sid, Effect                 string
							Action, NotAction, Resource any
							Condition                   map[string]map[string]any
						}
					}
				}
			}
		}
	}
	if err := json.Unmarshal(data, &template); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	out := map[string]bool{}
	for id, r := range template.Resources {
		if r.Type != "AWS::IAM::Role" {
			continue
		}
		for _, p := range r.Properties.Policies {
			for _, s := range p.PolicyDocument.Statement {
				var when strings.Builder
				for _, operator := range slices.Sorted(maps.Keys(s.Condition)) {
					for _, key := range slices.Sorted(maps.Keys(s.Condition[operator])) {
						fmt.Fprintf(&when, " [%s %s: %s]", operator, key, strings.Join(plainTexts(s.Condition[operator][key]), " "))
					}
				}
				actions := plainTexts(s.Action)
				if s.NotAction != nil {
					actions = []string{"all but " + strings.Join(plainTexts(s.NotAction), ", ")}
				}
				for _, action := range actions {
					out[fmt.Sprintf("%s %s %s on %s%s", strings.TrimSuffix(id, "Role"), strings.ToLower(s.Effect), action, strings.Join(plainTexts(s.Resource), " "), when.String())] = true
				}
			}
		}
	}
	return out, nil
}

// shorter omits what is the same in all ARNs of a deployment.
var shorter = strings.NewReplacer("arn:${AWS::Partition}:", "", ":${AWS::Region}:${AWS::AccountId}:", ":", "-${AWS::AccountId}-${AWS::Region}", "")

// endpoint is the name of a service in a region.
var endpoint = regexp.MustCompile(`^([a-z0-9]+)\.(\$\{AWS::Region\}|[a-z0-9-]+)\.amazonaws\.com$`)

// plainTexts returns a value of a template, or the values of a list, as texts.
func plainTexts(v any) []string {
	switch v := v.(type) {
	case string:
		return []string{endpoint.ReplaceAllString(shorter.Replace(v), "$1")}
	case []any:
		var out []string
		for _, one := range v {
			out = append(out, plainTexts(one)...)
		}
		return out
	case map[string]any:
		for _, value := range v { // a function of its argument
			return plainTexts(value)
		}
	}
	return []string{fmt.Sprint(v)}
}
