package worker

// Retained returns the bytes that a Worker keeps between messages and for results
// that wait to be stored, and the limit.
func (c *Worker) Retained() (bytes, budget int) {
	c.results.mu.Lock()
	defer c.results.mu.Unlock()
	bytes = c.cache.inputs.Bytes() + c.cache.lists.Bytes() + c.cache.outputs.Bytes() + c.cache.params.Bytes() + c.results.bytes
	return bytes, inputBytes + listBytes + outputBytes + paramBytes + 2*maxWaiting
}
