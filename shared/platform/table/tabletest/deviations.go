package tabletest

import "millrace/shared/platform/table"

// Deviations are the places where a server is known not to do as DynamoDB's
// documentation says. There the suite holds it to its own answer, so that the
// list cannot grow old unnoticed. The zero Deviations are none: what a driver on
// DynamoDB itself must do.
type Deviations struct {
	// Immediate: indexes follow the table at once, and requests cost so little
	// time that histories of random operations can be long.
	Immediate bool
	// Capacity is what the server reports instead, by the name of the case.
	Capacity map[string]Cost
	// PagesAfterFilter: the megabyte of a page counts what the filter lets
	// through, where the documentation says what is read.
	PagesAfterFilter bool
}

// Cost is what one operation consumes of the table and of its indexes.
type Cost struct {
	Table   table.Units
	Indexes map[table.Index]table.Units
}

// Embedded is what the embedded server's table does beyond DynamoDB.
var Embedded = Deviations{Immediate: true}

// DynamoDBLocal is where AWS's emulator, version 1.25.1, deviates.
var DynamoDBLocal = Deviations{
	PagesAfterFilter: true,
	Capacity: map[string]Cost{
		// "If you perform a read operation on an item that does not exist, DynamoDB
		// still consumes read throughput": the emulator does so for GetItem, but
		// counts nothing for an absent key of a batch, nor for a query's empty page.
		"batch get rounds each": {Table: reads(3)},
		"query of nothing":      {},
		"query of an index":     {},
		// A transaction is two writes of each item, "one to prepare the transaction
		// and one to commit"; indexes follow when it is done, at their usual price.
		// The emulator doubles twice, and doubles index entries too.
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

// filteredPages returns how many pages a query takes whose filter lets next to
// nothing through.
func (d Deviations) filteredPages(documented int) int {
	if d.PagesAfterFilter {
		return 1
	}
	return documented
}
