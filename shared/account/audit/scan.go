package audit

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"

	"millrace/shared/platform/table"
)

// maxReads bounds the queries of a shard for one page. A round over all filters
// takes at most four, so that each page makes progress.
const maxReads = 16

const (
	newest = "7ZZZZZZZZZZZZZZZZZZZZZZZZZ" // greater than all ids
	above  = "0"                          // appended to an id it gives the next key, because all ids have the same length
)

var errSpent = errors.New("audit: the reads of a page are spent")

// reader reads one partition of a list, the newest entries first.
type reader struct {
	table  table.Table
	query  table.Query
	oldest string
	chunk  int
	read   []table.Item // not yet consumed
	ended  bool         // there are no older entries than those read
}

// newest returns the newest entry older than an id, or nil if there is none.
func (r *reader) newest(ctx context.Context, before string, reads *int) (table.Item, error) {
	for {
		for len(r.read) > 0 && r.read[0].Key().SK >= before {
			r.read = r.read[1:]
		}
		if len(r.read) > 0 {
			return r.read[0], nil
		}
		if r.ended {
			return nil, nil
		}
		if *reads++; *reads > maxReads {
			return nil, errSpent
		}
		q := r.query
		q.Range, q.Reverse, q.Limit = table.Between(r.oldest, before), true, r.chunk
		page, err := r.table.Query(ctx, q)
		if err != nil {
			return nil, err
		}
		// Without a filter an empty page is the last.
		r.read, r.ended = page.Items, page.Next == "" || len(page.Items) == 0
	}
}

// scan finds the entries of a shard that are in one list of each filter. It
// reads all lists in parallel and skips in each what the others do not contain.
type scan struct {
	filters [][]*reader
	before  string // entries from this id on have been examined
	match   table.Item
	ended   bool
	reads   int
}

// advance finds the next match. After errSpent the scan keeps its position.
func (s *scan) advance(ctx context.Context) error {
	for s.match == nil && !s.ended {
		var oldest, match table.Item
		same := true
		for _, lists := range s.filters {
			head, err := s.head(ctx, lists)
			if err != nil {
				return err
			}
			if head == nil {
				s.ended = true
				return nil
			}
			if match != nil && head.Key() != match.Key() {
				same = false
			}
			if match = head; oldest == nil || head.Key().SK < oldest.Key().SK {
				oldest = head
			}
		}
		if same {
			s.match, s.before = match, match.Key().SK
			return nil
		}
		s.before = oldest.Key().SK + above
	}
	return nil
}

// head returns the newest entry of all lists that the scan has not examined.
func (s *scan) head(ctx context.Context, lists []*reader) (table.Item, error) {
	var head table.Item
	for _, r := range lists {
		item, err := r.newest(ctx, s.before, &s.reads)
		if err != nil {
			return nil, err
		}
		if item != nil && (head == nil || item.Key().SK > head.Key().SK) {
			head = item
		}
	}
	return head, nil
}

// merge returns the newest matches of all scans, and where to continue, "" at
// the end. A match is returned once no other scan can find a newer one.
func merge(ctx context.Context, scans []*scan, limit int) (found []table.Item, next string, err error) {
	group, groupCtx := errgroup.WithContext(ctx)
	for _, s := range scans {
		group.Go(func() error {
			if err := s.advance(groupCtx); !errors.Is(err, errSpent) {
				return err
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, "", err
	}
	for {
		var first *scan
		for _, s := range scans {
			if !s.ended && (first == nil || s.before > first.before) {
				first = s
			}
		}
		switch {
		case first == nil:
			return found, "", nil
		case first.match == nil:
			if err := first.advance(ctx); errors.Is(err, errSpent) {
				return found, first.before, nil
			} else if err != nil {
				return nil, "", err
			}
		case len(found) == limit-1:
			return append(found, first.match), first.before, nil
		default:
			found = append(found, first.match)
			first.match = nil
		}
	}
}
