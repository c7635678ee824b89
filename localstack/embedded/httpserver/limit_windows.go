package httpserver

// openFiles is how many files the process may have open; 0: unknown.
func openFiles() uint64 { return 0 }
