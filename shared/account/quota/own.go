package quota

import (
	"fmt"
	"regexp"
	"strings"
)

// ofOne separates a limit and the workspace that its value is of.
const ofOne = "@"

// of is the name of a limit's value for one workspace.
func of(n Name, org string) Name { return n + Name(ofOne+org) }

func (v Values) set(n Name) bool {
	_, set := v[n]
	return set
}

// own reports whether there are settings of single workspaces.
func (v Values) own() bool {
	for n := range v {
		if strings.Contains(string(n), ofOne) {
			return true
		}
	}
	return false
}

// of returns the value of a limit for a workspace, which may have one of its own.
// ok is false if it is unlimited.
func (q *Quota) of(name Name, org string) (value int64, ok bool) {
	if q.own {
		if own := of(name, org); q.values.set(own) {
			name = own
		}
	}
	return q.values.Of(name)
}

var workspaceForm = regexp.MustCompile(`^org_[0-9A-Z]{26}$`)

// limitOf returns the name of the limit that a setting's name is of, which may be
// of one workspace.
func limitOf(setting string) (string, error) {
	limit, org, own := strings.Cut(setting, ofOne)
	switch l := byName[Name(limit)]; {
	case !own:
	case l != nil && !l.Own:
		return "", fmt.Errorf("limit %q: only %s can be set for one workspace", setting, strings.Join(names(func(l Limit) bool { return l.Own }), ", "))
	case !workspaceForm.MatchString(org):
		return "", fmt.Errorf("limit %q: %q is no id of a workspace, such as org_01J5ZK3T9QH8C6W2V7N4B1M0XR", setting, org)
	}
	return limit, nil
}
