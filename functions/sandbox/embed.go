// Package sandbox embeds the Python side of the service: the authoring package
// millrace, the runner that executes users' tasks, and the handler of the
// Lambda function. It runs nothing.
package sandbox

import (
	"embed"
	"io/fs"
)

//go:embed python/millrace/*.py python/millrace/client/*.py python/runner/*.py python/lambda_handler.py
var files embed.FS

// Handler is the name of the Lambda handler in [Python].
const Handler = "lambda_handler.handler"

// Python returns the Python tree: millrace/, runner/ and lambda_handler.py, as
// needed on sys.path or in the function's zip.
func Python() fs.FS {
	tree, err := fs.Sub(files, "python")
	if err != nil {
		panic(err) // the path is a constant and valid
	}
	return tree
}
