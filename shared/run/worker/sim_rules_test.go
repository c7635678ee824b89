package worker_test

// checkMemory checks the memory of the processes against their budgets.
func (s *sim) checkMemory() {
	for _, p := range s.procs {
		if bytes, budget := p.c.Retained(); bytes > budget {
			s.tell("%s holds %d bytes of %d", p.name, bytes, budget)
		}
	}
}
