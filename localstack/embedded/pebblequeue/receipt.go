package pebblequeue

import (
	"strconv"
	"strings"
)

// A receipt is "queue/id.receives.at.group": id is the message's number and at
// the time of its position, in base 36. receives grows with every delivery, also
// across restarts, so no two deliveries have the same receipt.

func formatReceipt(queue string, p position, receives int) (receipt, id string) {
	b := make([]byte, 0, 128)
	b = append(append(b, queue...), '/')
	from := len(b)
	b = strconv.AppendInt(b, p.seq, 36)
	to := len(b)
	b = strconv.AppendInt(append(b, '.'), int64(receives), 10)
	b = strconv.AppendInt(append(b, '.'), p.at, 36)
	receipt = string(append(append(b, '.'), p.group...))
	return receipt, receipt[from:to]
}

// parseReceipt parses a receipt. ok is false if it is not one of the queue's.
func parseReceipt(queue, receipt string) (p position, receives int, ok bool) {
	rest, found := strings.CutPrefix(receipt, queue+"/")
	fields := strings.SplitN(rest, ".", 4)
	if !found || len(fields) < 4 {
		return p, 0, false
	}
	seq, err := strconv.ParseInt(fields[0], 36, 64)
	if err != nil || seq <= 0 {
		return p, 0, false
	}
	n, err := strconv.ParseInt(fields[1], 10, 32)
	if err != nil || n <= 0 {
		return p, 0, false
	}
	at, err := strconv.ParseInt(fields[2], 36, 64)
	if err != nil || at <= 0 {
		return p, 0, false
	}
	return position{group: fields[3], at: at, seq: seq}, int(n), true
}
