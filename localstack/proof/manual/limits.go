package manual

import (
	"fmt"

	"millrace/shared/account/quota"
	"millrace/shared/run/expr"
	"millrace/shared/run/flowspec"
	"millrace/shared/run/runlog"
	"millrace/shared/run/sandbox"
	"millrace/shared/run/tasktype"
	"millrace/shared/run/tier"
	"millrace/shared/web/httpapi"
)

var limits = []table{
	{"tiers", tiers},
	{"quotas", func(string) (string, error) { return quota.Markdown(), nil }},
	{"sizes", sizes},
	{"error types", listed("shared/run/executor/executor.go", "Error types", "`error_type`", "")},
	{"HTTP codes", statuses},
}

func tiers(string) (string, error) {
	g := newGrid("tier", "memory of a Python task", "")
	for _, t := range tier.All() {
		note := ""
		if t == tier.Default {
			note = "where nothing names another"
		}
		g.row(code(string(t)), fmt.Sprintf("%d MB", t.MemoryMB()), note)
	}
	return g.String(), nil
}

func sizes(string) (string, error) {
	g := newGrid("what", "at most")
	for _, l := range []struct {
		what string
		most string
	}{
		{"body of a request, where the operation names no other", size(httpapi.MaxBody)},
		{"tasks of a flow", fmt.Sprint(flowspec.MaxTasks)},
		{"a `flow_spec`, as JSON without white space", size(flowspec.MaxBytes)},
		{"`retries` of a task", fmt.Sprint(flowspec.MaxRetries)},
		{"`timeout_secs` of a flow, and of a task that holds no worker", fmt.Sprintf("%d (366 days)", flowspec.MaxFlowTimeout)},
		{"`timeout_secs` of a `python` or `http` task", fmt.Sprintf("%d on AWS, %d on the embedded server", tasktype.HeldSecs, tasktype.ResidentSecs)},
		{"an expression", size(expr.MaxSource)},
		{"code of a version, unpacked", fmt.Sprintf("%s in %d files, %d times the zip", size(sandbox.MaxExtractedBytes), sandbox.MaxFiles, sandbox.MaxRatio)},
		{"output of a task, as JSON", size(sandbox.MaxOutputBytes)},
		{"a file that a task saves", size(sandbox.MaxFileBytes)},
		{"files that an attempt saves", fmt.Sprint(sandbox.MaxSavedFiles)},
		{"message of a log event; the rest is cut", size(runlog.MaxLine)},
		{"fields of a log event", size(sandbox.MaxFields)},
		{"events on a page of a log", fmt.Sprint(runlog.MaxLimit)},
	} {
		g.row(l.what, l.most)
	}
	return g.String(), nil
}

// size formats bytes in the largest unit that divides them.
func size(bytes int) string {
	for _, unit := range []struct {
		shift int
		name  string
	}{{30, "GB"}, {20, "MB"}, {10, "KB"}} {
		if bytes >= 1<<unit.shift && bytes%(1<<unit.shift) == 0 {
			return fmt.Sprintf("%d %s", bytes>>unit.shift, unit.name)
		}
	}
	return fmt.Sprintf("%d bytes", bytes)
}

// statuses lists the codes of errors, whose comments begin with the HTTP status.
func statuses(root string) (string, error) {
	list, err := constants(root, "shared/platform/errs/errs.go", "The codes, by HTTP status")
	if err != nil {
		return "", err
	}
	g := newGrid("status", "when")
	for _, c := range list {
		g.row(c.comment[:3], c.comment[5:])
	}
	return g.String(), nil
}
