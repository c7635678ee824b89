// Package bundle starts the whole program, which a binary built with the tag bundle
// carries beside the client's commands.
//
// The libraries of the server take 25 ms to initialize in each process that has them
// linked, whatever it is asked to do. A binary of `make build` and of the wheels is
// therefore linked without them. It carries the whole program as data, and becomes it
// for the commands of [Commands]: unpacked once to the user's cache folder, then started
// in place of this process.
package bundle

import "slices"

// Command is a command of the whole program.
type Command struct{ Name, Short string }

// Commands are those that need the libraries of the server.
var Commands = []Command{
	{"backup", "Copy the data directory of a running server to a new directory"},
	{"cloud", "Run what is deployed, on this machine: the synthesized templates with their functions"},
	{"demo", "Show the service at work: start a server, upload the example flows, run them, retry one"},
	{"dev", "Serve, and deploy the flows of a folder at each save"},
	{"dump", "Print table and queues of a data directory, an object of JSON a line; no server may run on it"},
	{"repair", "Cut the damaged part off a log of the database; no server may run on it"},
	{"restore-member", "Accept again the sessions and API keys of a member who was suspended"},
	{"serve", "Serve the API, the workers, the scheduler and the object store until SIGTERM"},
	{"suspend-member", "Refuse a member's sessions and API keys in a workspace, from the next request on"},
}

// Needs reports whether a command line, without the program's name, is for the whole
// program: a command of [Commands], its help or its completion.
func Needs(args []string) bool {
	for len(args) > 0 && slices.Contains([]string{"help", "__complete", "__completeNoDesc"}, args[0]) {
		args = args[1:]
	}
	return len(args) > 0 && slices.ContainsFunc(Commands, func(c Command) bool { return c.Name == args[0] })
}
