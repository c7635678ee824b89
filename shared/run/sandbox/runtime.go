package sandbox

import "context"

// Runtime is the platform that tasks run on. Packages installed for tasks must
// fit it.
type Runtime struct {
	Platform string // such as linux/arm64, in Go's names of systems and architectures
	Python   string // such as 3.13
}

// LambdaRuntime is the Runtime of the sandbox functions.
var LambdaRuntime = Runtime{Platform: "linux/arm64", Python: "3.13"}

// RuntimeReporter is a Sandbox that knows its Runtime.
type RuntimeReporter interface {
	// Runtime may have to start an interpreter to find out. An error means that
	// tasks cannot run here.
	Runtime(ctx context.Context) (Runtime, error)
}
