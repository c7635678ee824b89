package flowspec

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Unchanged returns, for each task of f, the index in before of the task with
// the same entry, if all their ancestors are unchanged as well; -1 for all
// other tasks. The error means that a flow's content is damaged.
func (f *Flow) Unchanged(before *Flow) ([]int, error) {
	mine, err := f.entries()
	if err != nil {
		return nil, err
	}
	theirs, err := before.entries()
	if err != nil {
		return nil, err
	}
	out := make([]int, len(f.Tasks))
	for _, i := range f.order {
		out[i] = -1
		j, found := before.byName[f.Tasks[i].Name]
		if !found || !bytes.Equal(mine[i], theirs[j]) {
			continue
		}
		same := true
		for _, d := range f.deps[i] {
			same = same && out[d] >= 0 //guard:retry/ancestors-unchanged drop operand 2
		}
		if same {
			out[i] = j
		}
	}
	return out, nil
}

// entries returns the tasks as they were registered, in canonical form.
func (f *Flow) entries() ([]json.RawMessage, error) {
	var spec struct {
		Tasks []json.RawMessage `json:"tasks"`
	}
	if err := json.Unmarshal(f.canonical, &spec); err != nil {
		return nil, fmt.Errorf("flowspec: %w", err)
	}
	if len(spec.Tasks) != len(f.Tasks) {
		return nil, fmt.Errorf("flowspec: %d entries of %d tasks", len(spec.Tasks), len(f.Tasks))
	}
	return spec.Tasks, nil
}
