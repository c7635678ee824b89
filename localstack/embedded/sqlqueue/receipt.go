package sqlqueue

import (
	"strconv"
	"strings"
)

// A receipt is "queue/id.receives"; id is the message's number in base 36.
// Counts rise with every delivery, across restarts too, so no two deliveries
// share a receipt.

// appendReceipt appends the receipt and returns where in it the id begins and
// ends.
func appendReceipt(b []byte, queue string, seq int64, receives int32) (receipt []byte, from, to int) {
	b = append(b, queue...)
	b = append(b, '/')
	from = len(b)
	b = strconv.AppendInt(b, seq, 36)
	to = len(b)
	b = append(b, '.')
	return strconv.AppendInt(b, int64(receives), 10), from, to
}

// parseReceipt reads a receipt; false if it is not one of the queue's.
func parseReceipt(queue, receipt string) (seq int64, receives int32, ok bool) {
	rest, found := strings.CutPrefix(receipt, queue)
	if !found || rest == "" || rest[0] != '/' {
		return 0, 0, false
	}
	id, count, found := strings.Cut(rest[1:], ".")
	if !found {
		return 0, 0, false
	}
	seq, err := strconv.ParseInt(id, 36, 64)
	if err != nil || seq <= 0 {
		return 0, 0, false
	}
	n, err := strconv.ParseInt(count, 10, 32)
	if err != nil || n <= 0 {
		return 0, 0, false
	}
	return seq, int32(n), true
}
