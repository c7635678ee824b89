package fn

import "fmt"

// Collector returns the variables that set the garbage collector of a function's
// process. They are variables because the collector would otherwise run before
// main: the initialization of packages allocates more than the 4 MB with which
// it begins, and with GOGC=400 it begins at 16 MB. The limit of three quarters of
// the function's memory keeps garbage from ending the process.
func (s Spec) Collector() map[string]string {
	return map[string]string{"GOGC": "400", "GOMEMLIMIT": fmt.Sprintf("%dMiB", s.MemoryMB*3/4)}
}
