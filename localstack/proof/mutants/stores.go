package main

// stores are the guards of the drivers on which all others stand.
func stores() []Guard {
	sqltable, memory := Tests{"localstack/embedded/sqltable", "TestTable"}, Tests{"localstack/memory", "TestTable"}
	return []Guard{
		{
			Name: "store/condition", Holds: "a write whose condition does not hold is not done",
			In:     "localstack/embedded/sqltable",
			Text:   `if !table.Holds(w.cond, w.old) {`,
			Broken: `if w.check && !table.Holds(w.cond, w.old) {`,
			Tests:  sqltable,
		},
		{
			Name: "store/transaction", Holds: "a transaction of which one condition fails writes nothing",
			In: "localstack/embedded/sqltable",
			Text: `	if cancelled {
		for`,
			Broken: `	if cancelled && len(plans) == 1 {
		for`,
			Tests: sqltable,
		},
		{
			Name: "memory/condition", Holds: "so it is in memory",
			In:     "localstack/memory",
			Text:   `if !table.Holds(w.cond, w.old) {`,
			Broken: `if w.check && !table.Holds(w.cond, w.old) {`,
			Tests:  memory,
		},
		{
			Name: "store/sets", Holds: "an addition to a set is a union",
			In:     "shared/table",
			Text:   `return newSet(v.kind, union(v.kind, v.Members(), a.Value.Members())), nil`,
			Broken: `return newSet(v.kind, a.Value.Members()), nil`,
			Tests:  sqltable,
		},
	}
}
