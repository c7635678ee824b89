package httpserver

// mostConnections is the largest default number of connections of a server.
const mostConnections = 4096

// DefaultConnections returns the default limit of connections for one of share
// servers in a process: at most 4,096, and at most a quarter of the process's
// open file limit divided by share, because the store and other work need
// files, too.
func DefaultConnections(share int) int {
	n := uint64(mostConnections)
	if files := openFiles(); files > 0 {
		n = min(n, files/4)
	}
	return max(int(n)/max(share, 1), 8)
}
