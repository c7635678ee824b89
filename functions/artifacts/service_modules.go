package artifacts

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"millrace/shared/platform/errs"
	"millrace/shared/run/flowspec"
)

// maxNear is the number of files that an error suggests.
const maxNear = 3

// missingModules returns an error for each task whose entrypoint names a module
// that is not in the artifact.
func missingModules(flow *flowspec.Flow, files []string) []errs.Detail {
	present := modules(files)
	var faults []errs.Detail
	check := func(entrypoint string, loc ...any) {
		module, _, _ := strings.Cut(entrypoint, ":")
		if entrypoint == "" || present[module] {
			return
		}
		faults = append(faults, errs.Detail{
			Type: "value_error", Loc: append(errs.Body("flow_spec"), append(loc, "entrypoint")...), Input: entrypoint,
			Msg: missingModule(module, files),
		})
	}
	for i := range flow.Tasks {
		check(flow.Tasks[i].Entrypoint, "tasks", i)
	}
	if flow.OnFailure != nil {
		check(flow.OnFailure.Entrypoint, "on_failure")
	}
	return faults
}

// modules returns the names under which Python imports files from their root:
// acme.flows.daily for acme/flows/daily.py, with or without __init__.py next to
// it, and acme.flows for acme/flows/__init__.py. Compiled modules are included.
func modules(files []string) map[string]bool {
	out := make(map[string]bool, len(files))
	for _, file := range files {
		dir, base := path.Split(file)
		stem, kind, _ := strings.Cut(base, ".") // daily.cpython-311-x86_64-linux-gnu.so
		if kind != "py" && kind != "pyc" && !strings.HasSuffix(kind, "so") {
			continue
		}
		name := strings.ReplaceAll(dir, "/", ".") + stem
		if stem == "__init__" {
			name = strings.TrimSuffix(strings.TrimSuffix(name, stem), ".")
		}
		out[name] = true
	}
	return out
}

// missingModule returns an error that names a missing module and suggests
// others.
func missingModule(module string, files []string) string {
	file := strings.ReplaceAll(module, ".", "/")
	msg := fmt.Sprintf("the artifact does not contain the module %s, which would be %s.py or %s/__init__.py at the root of the zip", module, file, file)
	if near := nearFiles(file, files); len(near) > 0 {
		msg += "; similar files are " + strings.Join(near, ", ")
	}
	return msg
}

// nearFiles returns the Python files with the module's name, ignoring case,
// those with most of its folders first; or, if there are none, those at the
// root.
func nearFiles(file string, files []string) []string {
	want := strings.Split(strings.ToLower(file), "/")
	common := func(name string) (n int) { // number of equal elements at the end
		name = strings.TrimSuffix(strings.TrimSuffix(strings.ToLower(name), ".py"), "/__init__")
		have := strings.Split(name, "/")
		for n < min(len(have), len(want)) && have[len(have)-1-n] == want[len(want)-1-n] {
			n++
		}
		return n
	}
	var near, root []string
	for _, f := range files {
		switch {
		case path.Ext(f) != ".py":
		case common(f) > 0:
			near = append(near, f)
		case !strings.Contains(f, "/"):
			root = append(root, f)
		}
	}
	if near == nil {
		near = root
	}
	slices.SortStableFunc(near, func(a, b string) int { return common(b) - common(a) })
	return near[:min(len(near), maxNear)]
}
