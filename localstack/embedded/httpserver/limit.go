package httpserver

// mostConnections is how many connections one server has at most.
const mostConnections = 4096

// DefaultConnections is how many connections a server has of share parts of the
// process: at most 4,096, and no more than a quarter of the files that the process
// may have open, divided by share, for the store and what is under way need some.
func DefaultConnections(share int) int {
	n := uint64(mostConnections)
	if files := openFiles(); files > 0 {
		n = min(n, files/4)
	}
	return max(int(n)/max(share, 1), 8)
}
