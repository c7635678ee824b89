package dev

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestCloseChangesAreOneSave(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		changes := make(chan save)
		saves := settle(changes)
		began := time.Now()
		change := func(path string) { changes <- save{time.Now(), path} }
		change("a")
		time.Sleep(quiet / 2)
		change("b")
		assert.Equal(t, save{began, "b"}, <-saves)
		assert.Equal(t, quiet*3/2, time.Since(began), "it waits until the files are quiet")

		began = time.Now()
		go func() {
			for range 30 {
				change("busy")
				time.Sleep(quiet / 4)
			}
			close(changes)
		}()
		assert.Equal(t, save{began, "busy"}, <-saves)
		assert.LessOrEqual(t, time.Since(began), atLatest, "it does not wait for ever")
		for range saves { // until the changes end
		}
	})
}

func TestDeployedSelectsFiles(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]bool{
		"/p/flow.py": true, "/p/lib/x.txt": true, "/p": false,
		"/p/.git/index": false, "/p/.millrace/table/1": false, "/p/lib/__pycache__/x.pyc": false,
		"/p/.venv/lib/x.py": false, "/p/venv/x.py": false, "/p/flow.py~": false, "/p/.flow.py.swp": false, "/p/x.pyc": false,
	} {
		assert.Equal(t, want, deployed("/p", path), path)
	}
}
