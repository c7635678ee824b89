package pebbletable_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"millrace/localstack/embedded/pebbletable"
	"millrace/localstack/embedded/store"
	"millrace/localstack/proof/seed"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/table"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// fileVariable is the environment variable that makes the test binary a writer
// on the named file, to be killed.
const fileVariable = "PEBBLETABLE_TEST_WRITER"

func TestMain(m *testing.M) {
	if path := os.Getenv(fileVariable); path != "" {
		if err := writeForever(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	seed.Fix()
	os.Exit(m.Run())
}

// writeForever writes pairs of items from eight goroutines and prints each pair
// once it is acknowledged.
func writeForever(path string) error {
	db, err := store.Open(path, store.Options{})
	if err != nil {
		return err
	}
	tbl := pebbletable.New(db, clock.System{})
	var mu sync.Mutex
	failed := make(chan error)
	for w := range 8 {
		go func() {
			for n := 0; ; n++ {
				pk := fmt.Sprintf("w%d-%d-%d", os.Getpid(), w, n)
				if err := tbl.Transact(context.Background(), pair(pk)...); err != nil {
					failed <- err
					return
				}
				mu.Lock()
				fmt.Println(pk) // unbuffered, and only after it was acknowledged
				mu.Unlock()
			}
		}()
	}
	return <-failed
}

func pair(pk string) []table.Write {
	body := strings.Repeat("x", 600)
	var writes []table.Write
	for _, sk := range []string{"left", "right"} {
		writes = append(writes, table.Put{If: table.IsNew(), Item: table.Item{
			"pk": table.V(pk), "sk": table.V(sk), "body": table.V(body),
			"due_pk": table.V(pk), "due_sk": table.V(sk)}})
	}
	return writes
}

func TestAcknowledgedWritesSurviveKill(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "store")
	acknowledged := map[string]bool{}
	for range 3 {
		killed(t, path, 400, acknowledged)
	}

	db, err := store.Open(path, store.Options{})
	require.NoError(t, err, "the kill released the lock")
	defer db.Close()
	tbl := pebbletable.New(db, clock.System{})
	for pk := range acknowledged {
		for _, index := range []table.Index{"", table.Due} {
			page, err := tbl.Query(t.Context(), table.Query{Index: index, PK: pk})
			require.NoError(t, err)
			require.Len(t, page.Items, 2, "%s of index %q", pk, index)
		}
	}
	assert.GreaterOrEqual(t, len(acknowledged), 1200)
}

// killed starts a writer, kills it after it has acknowledged n pairs, and
// records all acknowledged pairs.
func killed(t *testing.T, path string, n int, acknowledged map[string]bool) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), fileVariable+"="+path)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines := bufio.NewReader(out)
	for i := 0; ; i++ {
		line, err := lines.ReadString('\n')
		if err != nil {
			break // a truncated line was not acknowledged
		}
		acknowledged[strings.TrimSpace(line)] = true
		if i == n {
			require.NoError(t, cmd.Process.Kill())
		}
	}
	require.Error(t, cmd.Wait())
}
