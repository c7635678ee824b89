package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"millrace/localstack/embedded/objectstore"
	"millrace/shared/platform/blob"
	"millrace/shared/platform/blob/s3"
	"millrace/shared/platform/ids"
)

// tries is how often counts are repeated while some are above the golden file:
// if the machine stalls for half a second, the log takes one more write.
const tries = 3

const chainRow = "a task of a chain"

func costRow() string            { return fmt.Sprintf("a million tasks, chains of %d", billedChain) }
func taskRow(work string) string { return "a task: " + work }

func countGroups() []group {
	rows := []string{acceptKeyWork, chainRow, costRow()}
	for _, n := range widths {
		rows = append(rows, taskRow(fanWork(n)), taskRow(mapWork(n)))
	}
	return []group{{rows: rows, run: countRows}}
}

func countRows(ctx context.Context, b *bench) error {
	var counts []Count
	for range tries {
		err := b.withObjects(ctx, func(objects blob.Store) (err error) {
			counts, err = Counts(ctx, objects, Widest)
			return err
		})
		if err != nil {
			return err
		}
		if rose, _ := Compare(b.golden, counts); len(rose) == 0 {
			break
		}
	}
	b.compare(counts)
	budgets, err := CountBudgets(counts)
	if err != nil {
		return err
	}
	met := func(work string) bool {
		for _, m := range budgets {
			if m.Work == work && !m.Met() {
				return false
			}
		}
		return true
	}
	accept, _ := find(counts, acceptKeyWork)
	b.show(row{name: acceptKeyWork}.of(&accept).in("16 write units, 1 message", met(acceptKeyWork)))
	short, long := chainWork(chains[0]), chainWork(chains[1])
	r := row{name: chainRow}
	for _, m := range budgets {
		switch {
		case m.Work == long && m.What == writesEach:
			r.write = m.Got
		case m.Work == long && m.What == readsEach:
			r.read = m.Got
		}
	}
	b.show(r.in("3 write u., 1 read u.; a run 1 message", met(short) && met(long)))
	for _, name := range []func(int) string{fanWork, mapWork} {
		for _, n := range widths {
			c, _ := find(counts, name(n))
			tasks := float64(c.Tasks)
			r := row{name: taskRow(c.Work), write: c.Write / tasks, read: c.Read / tasks, requests: float64(c.Requests) / tasks}
			b.show(r.in("6 write u., 3 queue r., linear", met(c.Work)))
		}
	}
	cost, _, err := dollars(counts, chainWork(billedChain))
	if err != nil {
		return err
	}
	b.show(row{name: costRow(), median: fmt.Sprintf("$%.2f", cost)}.in(fmt.Sprintf("$%.2f", chainDollars), cost <= chainDollars))
	return nil
}

// withObjects runs do with an object store. Meanwhile the process's working
// directory is the store's.
func (b *bench) withObjects(ctx context.Context, do func(blob.Store) error) (err error) {
	dir, err := os.MkdirTemp(b.dir, "objects-")
	if err != nil {
		return err
	}
	cfg := objectstore.Config{Dir: filepath.Clean(dir), AccessKey: "bench", SecretKey: ids.Token(24), Bucket: "bench"}
	server, err := objectstore.Start(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() {
		if closed := server.Close(); err == nil {
			err = closed
		}
	}()
	return do(s3.New(s3.Config{
		Bucket: cfg.Bucket, Region: objectstore.Region, Endpoint: server.Endpoint(),
		AccessKey: cfg.AccessKey, SecretKey: cfg.SecretKey, PathStyle: true,
	}))
}
