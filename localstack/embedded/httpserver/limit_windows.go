package httpserver

// openFiles returns the process's open file limit, 0 if it is unknown.
func openFiles() uint64 { return 0 }
