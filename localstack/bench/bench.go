// Package bench measures what the service costs and how fast it is, and holds
// it to its budgets. What is counted, such as units of the table and requests
// to the queues, is the same on every machine and may not rise above the golden
// file; times are those of the machine.
package bench
