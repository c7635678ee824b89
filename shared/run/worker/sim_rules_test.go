package worker_test

// checkMemory holds what the processes keep to their budgets.
func (s *sim) checkMemory() {
	for _, p := range s.procs {
		if bytes, budget := p.c.Held(); bytes > budget {
			s.tell("%s holds %d bytes of %d", p.name, bytes, budget)
		}
	}
}
