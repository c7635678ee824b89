package tabletest

import "millrace/shared/platform/table"

// Deviations are the known differences of a server from DynamoDB's
// documentation. The suite checks for the deviating answer, so that an outdated
// entry fails. The zero Deviations is DynamoDB itself.
type Deviations struct {
	// Immediate means that indexes follow the table at once, and requests are so
	// fast that random histories can be long.
	Immediate bool
	// Capacity is what the server reports instead, by name of the case.
	Capacity map[string]Cost
	// PagesAfterFilter means that the megabyte of a page counts only items that
	// pass the filter; the documentation counts the items read.
	PagesAfterFilter bool
}

// Cost is what one operation consumes of the table and of its indexes.
type Cost struct {
	Table   table.Units
	Indexes map[table.Index]table.Units
}

// Embedded is the embedded server's table.
var Embedded = Deviations{Immediate: true}

// DynamoDBLocal is AWS's emulator, version 1.25.1.
var DynamoDBLocal = Deviations{
	PagesAfterFilter: true,
	Capacity: map[string]Cost{
		// "If you perform a read operation on an item that does not exist, DynamoDB
		// still consumes read throughput": the emulator does so for GetItem, but
		// counts nothing for a missing key of a batch or a query's empty page.
		"batch get rounds each": {Table: reads(3)},
		"query of nothing":      {},
		"query of an index":     {},
		// A transaction is two writes of each item, "one to prepare the transaction
		// and one to commit"; index writes follow at the normal price. The emulator
		// doubles twice, and doubles index writes too.
		"transaction of two puts and a check": {Table: writes(8), Indexes: map[table.Index]table.Units{table.Due: writes(4)}},
		"transaction doubles what is rounded": {Table: writes(20)},
		byOperation:                           {Table: table.Units{Read: 1.5, Write: 8}},
	},
}

// cost returns what an operation must cost on the server.
func (d Deviations) cost(name string, documented Cost) Cost {
	if reported, ok := d.Capacity[name]; ok {
		return reported
	}
	return documented
}

// filteredPages returns the number of pages of a query whose filter passes
// almost nothing.
func (d Deviations) filteredPages(documented int) int {
	if d.PagesAfterFilter {
		return 1
	}
	return documented
}
