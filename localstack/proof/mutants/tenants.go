package main

// tenants are the guards that keep one workspace's items from another's: every
// key begins with the workspace.
func tenants() []Guard {
	keys := runstate("TestKeysBeginWithTheWorkspace")
	return []Guard{
		{
			Name: "tenant/run", Holds: "the keys of a run begin with its workspace",
			In:     runstateDir,
			Text:   `return org + "#run#" + run }`,
			Broken: `return "org#run#" + run + org[:0] }`,
			Tests:  keys,
		},
		{
			Name: "tenant/lists", Holds: "the lists of runs begin with their workspace",
			In:     runstateDir,
			Text:   `return org + "#runs#" + flow + "#" + env }`,
			Broken: `return "org#runs#" + flow + "#" + env + org[:0] }`,
			Tests:  keys,
		},
		{
			Name: "tenant/objects", Holds: "the objects of a run begin with its workspace",
			In:     runstateDir,
			Text:   `return org + "/runs/" + run + "/" + name }`,
			Broken: `return "runs/" + run + "/" + name + org[:0] }`,
			Tests:  keys,
		},
		{
			Name: "tenant/due", Holds: "entries of the due index tell their workspace",
			In:     runstateDir,
			Text:   `at.UnixMilli(), partition(org, run)),`,
			Broken: `at.UnixMilli(), partition("", run)),`,
			Tests:  keys,
		},
		{
			Name: "tenant/idempotency", Holds: "one workspace's idempotency keys are not another's",
			In:     launchDir,
			Text:   `PK: org + "#idempotency#" + flow,`,
			Broken: `PK: "org#idempotency#" + flow,`,
			Tests:  launch("TestAKeyIsOfOneWorkspace"),
		},
		{
			Name: "tenant/audit", Holds: "audit entries stand with their workspace",
			In:     "shared/audit",
			Text:   `func Partition(org string) string { return org + "#audit" }`,
			Broken: `func Partition(org string) string { return org[:0] + "#audit" }`,
			Tests:  Tests{"shared/audit", "TestEntry"},
		},
		{
			Name: "tenant/messages", Holds: "messages stand in their workspace's group",
			In:     conductorDir,
			Text:   `Group: s.org,`,
			Broken: `Group: "org",`,
			Tests:  conductor("TestMessagesAreOfTheWorkspace"),
		},
		{
			Name: "tenant/first message", Holds: "so does the first message of a run",
			In:     launchDir,
			Text:   `Group: m.Org}`,
			Broken: `Group: "org"}`,
			Tests:  conductor("TestMessagesAreOfTheWorkspace"),
		},
	}
}
