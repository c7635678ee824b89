// Command millrace is the client of any deployment of Millrace, and the whole
// service in one process for one machine: the API, the workers, the scheduler and
// the object store on one data directory, without a cloud account.
package main

import (
	"os"

	"millrace/localstack/cli"
)

// version is set in releases (-ldflags "-X main.version=…").
var version = ""

func main() { os.Exit(cli.Main(version)) }
