package pebblequeue

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
	"time"

	"github.com/stretchr/testify/require"

	"millrace/localstack/embedded/store"
	"millrace/localstack/proof/seed"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/queue"
)

const childEnv = "PEBBLEQUEUE_TEST_CHILD"

// TestMain runs the test binary as the process to be killed, if requested.
func TestMain(m *testing.M) {
	if path := os.Getenv(childEnv); path != "" {
		fmt.Fprintln(os.Stderr, child(path))
		os.Exit(1)
	}
	seed.Fix()
	os.Exit(m.Run())
}

// child sends, receives and deletes until it is killed, and reports each step:
// "sent n" after an acknowledged send, "delete n" before a delete. A line is
// one write to a pipe, which a kill cannot split.
func child(path string) error {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	db, err := store.Open(path, store.Options{})
	if err != nil {
		return err
	}
	qs, err := New(ctx, db, clock.System{}, []queue.Definition{{Name: "q", Visibility: time.Hour}})
	if err != nil {
		return err
	}
	tell := func(what string, bodies []string) {
		var lines strings.Builder
		for _, body := range bodies {
			fmt.Fprintln(&lines, what, body)
		}
		if _, err := os.Stdout.WriteString(lines.String()); err != nil {
			cancel(err)
		}
	}
	var group sync.WaitGroup
	for s := range 4 {
		group.Go(func() {
			for i := 0; ctx.Err() == nil; i += 3 {
				var msgs []queue.Message
				var bodies []string
				for j := range 3 {
					body := fmt.Sprintf("%d%d%06d", os.Getpid(), s, i+j)
					bodies = append(bodies, body)
					msgs = append(msgs, queue.Message{Body: []byte(body)})
				}
				if err := qs.Send(ctx, "q", msgs...); err != nil {
					cancel(err)
					return
				}
				tell("sent", bodies)
			}
		})
	}
	for range 2 {
		group.Go(func() {
			for ctx.Err() == nil {
				ds, err := qs.Receive(ctx, "q", 10, time.Second)
				if err != nil {
					cancel(err)
					return
				}
				for _, d := range ds[:len(ds)/2] {
					tell("delete", []string{string(d.Body)})
					if err := qs.Delete(ctx, "q", d.Receipt); err != nil {
						cancel(err)
					}
				}
			}
		})
	}
	group.Wait()
	return context.Cause(ctx)
}

// TestKill kills a busy process several times on the same file and checks that
// every message that was reported as sent and not as being deleted still
// exists.
func TestKill(t *testing.T) {
	t.Parallel()
	const kills, lines = 4, 2000
	path := filepath.Join(t.TempDir(), "queue")
	said := map[string]map[string]bool{"sent": {}, "delete": {}}
	for range kills {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), childEnv+"="+path)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		n := 0
		for scanner := bufio.NewScanner(out); scanner.Scan(); n++ {
			if n == lines {
				require.NoError(t, cmd.Process.Kill())
			}
			what, body, _ := strings.Cut(scanner.Text(), " ")
			require.Contains(t, said, what)
			said[what][body] = true
		}
		require.Error(t, cmd.Wait())
		require.Greater(t, n, lines, "the process ended by itself")
	}

	db, err := store.Open(path, store.Options{})
	require.NoError(t, err)
	defer db.Close()
	qs, err := New(t.Context(), db, clock.System{}, []queue.Definition{{Name: "q", Visibility: time.Hour}})
	require.NoError(t, err)
	defer qs.Close()
	kept := make(map[string]bool)
	for {
		ds, err := qs.Receive(t.Context(), "q", 10, 0)
		require.NoError(t, err)
		if len(ds) == 0 {
			break
		}
		for _, d := range ds {
			require.False(t, kept[string(d.Body)], "%s is there twice", d.Body)
			kept[string(d.Body)] = true
		}
	}
	lost, deleted := 0, 0
	for body := range said["sent"] {
		switch {
		case said["delete"][body] && !kept[body]:
			deleted++
		case !kept[body]:
			lost++
		}
	}
	require.Zero(t, lost, "of %d sent", len(said["sent"]))
	require.Positive(t, deleted, "deletes reach the disk too")
	t.Logf("%d sent, %d deletes begun, %d deleted", len(said["sent"]), len(said["delete"]), deleted)
}
