package main

import (
	"bytes"
	"io"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const source = `package p

func (s *set[T]) add(n int) error {
	if n < 0 {
		return errNegative
	}
	for range n {
		if err := s.one(func() error {
			return errFull
		}); err != nil {
			return err
		}
	}
	return nil
}
`

// blocks are the coverage blocks of source.
var blocks = []block{
	{point{3, 35}, point{4, 11}, 1},
	{point{4, 11}, point{6, 3}, 0},
	{point{7, 2}, point{7, 14}, 1},
	{point{7, 14}, point{8, 31}, 1},
	{point{8, 31}, point{10, 4}, 0},
	{point{10, 5}, point{10, 17}, 1},
	{point{10, 17}, point{12, 4}, 0},
	{point{14, 2}, point{14, 12}, 1},
}

func lines(t *testing.T) []Line {
	t.Helper()
	out, err := fileLines("p/set.go", []byte(source), blocks)
	require.NoError(t, err)
	return out
}

func TestLines(t *testing.T) {
	t.Parallel()
	var not []string
	for _, line := range lines(t) {
		if line.Runs == 0 {
			not = append(not, line.Name.String())
		}
	}
	assert.Len(t, lines(t), 7)
	assert.Equal(t, []string{"p set.add: return errNegative", "p set.add: return errFull", "p set.add: return err"}, not)
}

func TestCheck(t *testing.T) {
	t.Parallel()
	const all = "# about\n\n## why\np set.add: return errNegative\np set.add: return errFull\n\n## and why\np set.add: return err\n"
	for name, c := range map[string]struct {
		list, says string
		good       bool
	}{
		"all are listed":      {list: all, good: true, says: "4 of 7 lines are run"},
		"one that is run too": {list: all + "p set.add: return nil\n", good: true, says: "4 of 7"},
		"one is not":          {list: "## why\np set.add: return errFull\np set.add: return err\n", says: "p/set.go:5 is not run and not listed: p set.add: return errNegative"},
		"one is gone":         {list: all + "p set.add: return 7\n", says: "listed 1 times and there 0 times: p set.add: return 7"},
		"more than there are": {list: all + "p set.add: return errFull x2\n", says: "listed 3 times and there 1 times"},
		"without a reason":    {list: "## why\np set.add: return errFull\n## " + noReason + "\np set.add: return errNegative\np set.add: return err\n", says: "listed without a reason: p set.add: return err"},
		"empty":               {says: "not listed"},
	} {
		list, err := parseList(c.list)
		require.NoError(t, err, name)
		var out bytes.Buffer
		err = list.Check(lines(t), &out)
		assert.Equal(t, c.good, err == nil, name)
		assert.Contains(t, out.String(), c.says, name)
	}
	for _, bad := range []string{"p set.add: return 1", "## why\nreturn 1"} {
		_, err := parseList(bad)
		assert.Error(t, err, bad)
	}
}

// TestUpdate checks that an update keeps the reasons of lines that are not run,
// drops lines that are, and adds new ones.
func TestUpdate(t *testing.T) {
	t.Parallel()
	list, err := parseList("# about\n## why\np set.add: return errFull x3\np set.add: return nil\n## gone\np set.add: return 7\n")
	require.NoError(t, err)
	const want = "# about\n\n## why\np set.add: return errFull\n\n## No reason yet\np set.add: return errNegative\np set.add: return err\n"
	assert.Equal(t, want, list.Updated(lines(t), 1).String())
	again, err := parseList(want)
	require.NoError(t, err)
	assert.Equal(t, want, again.String())
}

// TestUpdateOfSeveralRuns checks that an update lists a line that one of several
// test runs did not run, and that a check takes it for run.
func TestUpdateOfSeveralRuns(t *testing.T) {
	t.Parallel()
	got := lines(t)
	for i := range got {
		got[i].Runs = 3
	}
	list, err := parseList("")
	require.NoError(t, err)
	assert.Empty(t, list.Updated(got, 3).String())
	got[1].Runs = 2
	assert.Equal(t, "\n## No reason yet\n"+got[1].Name.String()+"\n", list.Updated(got, 3).String())
	require.NoError(t, list.Check(got, io.Discard))
	got[1].Runs = 0
	require.Error(t, list.Check(got, io.Discard))
}

func write(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}

func TestProfile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	one, two, other := dir+"/one", dir+"/two", dir+"/other"
	write(t, one, "mode: set\nmillrace/p/a.go:1.2,3.4 5 0\nmillrace/p/a.go:5.1,6.2 1 0\nmillrace/p/a.go:1.2,3.4 5 2\n")
	write(t, two, "mode: set\nmillrace/p/a.go:1.2,3.4 5 7\nmillrace/p/a.go:5.1,6.2 1 0\n")
	write(t, other, "mode: set\nmillrace/p/a.go:1.2,3.5 5 7\nmillrace/p/a.go:5.1,6.2 1 0\n")
	got, err := readProfiles([]string{one, two})
	require.NoError(t, err)
	assert.Equal(t, map[string][]block{"p/a.go": {{point{1, 2}, point{3, 4}, 2}, {point{5, 1}, point{6, 2}, 0}}}, got)
	_, err = readProfiles([]string{one, other})
	require.ErrorContains(t, err, "is of other code")
	for _, bad := range []string{"", "mode: set\n", "millrace/p/a.go:1.2\n"} {
		write(t, other, bad)
		_, err := readProfiles([]string{other})
		assert.Error(t, err, bad)
	}
}
