package session

// mine accepts any file: folders that all users write to are unusual on Windows.
func mine(string) error { return nil }
