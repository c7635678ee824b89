// Package bundle starts the full program, which a binary built with the tag bundle
// embeds next to the client commands.
//
// The server's libraries take 25 ms to initialize in every process that links them,
// whichever command it runs. The binaries of `make build` and of the wheels are
// therefore linked without them and embed the full program as data. For the commands
// in [Commands] the program is unpacked once to the user's cache folder and replaces
// this process.
package bundle

import "slices"

// Command is a command that only the full program has.
type Command struct{ Name, Short string }

// Commands lists the commands that need the server's libraries.
var Commands = []Command{
	{"backup", "Copy the data directory of a running server to a new directory"},
	{"cloud", "Run a deployment on this machine: the synthesized templates with their functions"},
	{"demo", "Show the service at work: start a server, upload the example flows, run them, retry one"},
	{"dev", "Serve, and deploy the flows of a folder at each save"},
	{"dump", "Print table and queues of a data directory, one JSON object per line; no server may be running on it"},
	{"repair", "Truncate the damaged part of a database log; no server may be running on it"},
	{"restore-member", "Accept again the sessions and API keys of a member who was suspended"},
	{"rotate-keys", "Make new keys that sign list cursors and seal secret values; no server may be running"},
	{"serve", "Serve the API, the workers, the scheduler and the object store until SIGTERM"},
	{"suspend-member", "Refuse a member's sessions and API keys in a workspace, from the next request on"},
	{"switch-backfills", "Switch the backfills of a workspace on or off"},
}

// Needs reports whether a command line, without the program's name, needs the full
// program: one of [Commands], its help or its completion.
func Needs(args []string) bool {
	for len(args) > 0 && slices.Contains([]string{"help", "__complete", "__completeNoDesc"}, args[0]) {
		args = args[1:]
	}
	return len(args) > 0 && slices.ContainsFunc(Commands, func(c Command) bool { return c.Name == args[0] })
}
