package sandbox

import "context"

// Runtime is what tasks run on: packages that are installed for them have to fit
// it.
type Runtime struct {
	Platform string // linux/arm64, as Go names systems and machines
	Python   string // 3.13
}

// LambdaRuntime is that of the sandbox functions.
var LambdaRuntime = Runtime{Platform: "linux/arm64", Python: "3.13"}

// Described is a Sandbox that tells what tasks run on.
type Described interface {
	// Runtime may have to start an interpreter to find out. Its error means that
	// tasks cannot run here.
	Runtime(ctx context.Context) (Runtime, error)
}
