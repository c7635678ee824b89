package output

// Columns are the columns of a table that has a row for each item of type T.
type Columns[T any] struct {
	Titles []string
	Cells  func(*Printer, T) []string // of one row
}

// Print prints a table of items.
func (c Columns[T]) Print(p *Printer, items ...T) error {
	rows := make([][]string, len(items))
	for i, item := range items {
		rows[i] = c.Cells(p, item)
	}
	return p.Table(c.Titles, rows)
}

// PrintOne prints a table of one item.
func (c Columns[T]) PrintOne(p *Printer, item T) error { return c.Print(p, item) }
