package quota

import (
	"fmt"
	"maps"
	"strings"
)

// Plan is what the workspaces of a plan may use in a calendar month, and how
// long their records are kept.
type Plan struct {
	Name   string
	Values Values
}

// Plans is the table of plans. An operator chooses one by the setting plan=NAME,
// and can set the values of single limits after it.
var Plans = []Plan{
	{"free", Values{MonthlyRuns: 10_000, MonthlyCompute: 100_000, RunDays: 30, AuditDays: 90}},
	{"team", Values{MonthlyRuns: 1_000_000, MonthlyCompute: 5_000_000, RunDays: 90, AuditDays: 400}},
	{"business", Values{MonthlyRuns: 20_000_000, MonthlyCompute: 100_000_000, RunDays: 365, AuditDays: 2555}},
	{Unlimited, Values{MonthlyRuns: -1, MonthlyCompute: -1, RunDays: -1, AuditDays: -1}},
}

const planSetting = "plan"

// planValues returns the values of the plan with a name.
func planValues(name string) (Values, error) {
	known := make([]string, len(Plans))
	for i, p := range Plans {
		if p.Name == name {
			return maps.Clone(p.Values), nil
		}
		known[i] = p.Name
	}
	return nil, fmt.Errorf("unknown plan %q; the plans are %s", name, strings.Join(known, ", "))
}

// plansMarkdown returns the plans as a table, after an empty line.
func plansMarkdown() string {
	var planned []Name
	head, rule := "| plan |", "| --- |"
	for _, l := range Limits {
		if l.Monthly || l.Days {
			planned = append(planned, l.Name)
			head, rule = head+" `"+string(l.Name)+"` |", rule+" --- |"
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s\n%s\n", head, rule)
	for _, p := range Plans {
		fmt.Fprintf(&b, "| `%s` |", p.Name)
		for _, name := range planned {
			fmt.Fprintf(&b, " %s |", grouped(p.Values[name]))
		}
		b.WriteString("\n")
	}
	return b.String()
}
