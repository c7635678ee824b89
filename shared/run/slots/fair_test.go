package slots

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

func TestFair(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		all, own int
		others   []int
		want     int
	}{
		"alone":                      {600, 300, nil, 300},
		"alone, a larger limit":      {600, 900, nil, 600},
		"two":                        {600, 300, []int{300}, 300},
		"six":                        {600, 300, []int{300, 300, 300, 300, 300}, 100},
		"beside small ones":          {600, 300, []int{10, 10, 280, 300}, 193},
		"what others leave":          {600, 300, []int{300, 100}, 250},
		"nothing is left":            {0, 300, []int{300}, 1},
		"more workspaces than slots": {3, 300, []int{9, 9, 9, 9}, 1},
		"a small limit":              {600, 7, []int{300, 300, 300}, 7},
	} {
		assert.Equal(t, c.want, fair(c.all, c.own, c.others), name)
	}
}

// TestShare divides 95 of 100, beside workspaces that hold more than their share,
// ask for more, or may take more than they have.
func TestShare(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		held   int
		waits  bool
		others []use
		want   int
	}{
		"alone":                         {6, true, nil, 60},
		"alone, it waits for none":      {6, false, nil, 6 + 1 + 4},
		"one holds all of its limit":    {6, true, []use{{held: 60, wants: 61, may: 60}}, 35},
		"it holds more than its share":  {60, true, []use{{held: 35, wants: 60, may: 35}}, 47},
		"one needs what it holds":       {6, true, []use{{held: 40, wants: 40, may: 60}}, 45},
		"one may take more":             {6, true, []use{{held: 10, wants: 60, may: 60}}, 35},
		"two hold what there is":        {6, true, []use{{held: 60, wants: 60, may: 60}, {held: 60, wants: 60, may: 60}}, 6},
		"one asks while another has it": {6, true, []use{{held: 60, wants: 61, may: 60}, {held: 6, wants: 6, asks: 60, may: 9}}, 6},
		"it begins":                     {0, true, []use{{held: 60, wants: 61, may: 60}, {held: 60, wants: 61, may: 60}}, 4},
	} {
		may, _ := share(100, 60, c.held, c.waits, c.others)
		assert.Equal(t, c.want, may, name)
	}
}

// TestShareCountsSlotsAbove: slots that are held above what a workspace may hold
// count, so that as many below are not taken.
func TestShareCountsSlotsAbove(t *testing.T) {
	t.Parallel()
	held := func(numbers ...int) (out []Slot) {
		for _, n := range numbers {
			out = append(out, Slot{Number: n, Run: "run"})
		}
		return out
	}
	for _, c := range []struct {
		held []Slot
		may  int
		want int
	}{
		{nil, 4, 4}, {held(0, 1, 2), 4, 4}, {held(7, 8, 9), 4, 1}, {held(0, 7, 8), 4, 2}, {held(0, 1, 7, 8), 4, 2},
		{held(0, 1, 2, 3, 8), 4, 4}, {held(5, 6, 7, 8, 9), 4, 4}, {held(0), 10, 10}, {nil, 12, 10},
	} {
		assert.Equal(t, c.want, below(c.held, 10, c.may), "%v of %d", c.held, c.may)
	}
}

// TestFairShares: what workspaces hold by their shares is what is there at most,
// or one each; no share could be larger, none is smaller because another wants
// less, and each has what it wants before another has more than it.
func TestFairShares(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		all := rapid.IntRange(0, 1000).Draw(t, "all")
		wants := rapid.SliceOfN(rapid.IntRange(1, 400), 1, 30).Draw(t, "wants")
		share := func(wants []int, i int) int {
			return fair(all, wants[i], slices.Delete(slices.Clone(wants), i, i+1))
		}
		sum, spare, least := 0, all, 1<<30
		shares := make([]int, len(wants))
		for i := range wants {
			shares[i] = share(wants, i)
			assert.LessOrEqual(t, shares[i], wants[i])
			assert.GreaterOrEqual(t, shares[i], 1)
			sum += shares[i]
			spare -= shares[i]
			if shares[i] < wants[i] {
				least = min(least, shares[i])
			}
		}
		assert.True(t, sum <= all || slices.Max(shares) == 1, "%v are %d of %d", shares, sum, all)
		cut := 0
		for i, n := range shares {
			assert.LessOrEqual(t, n, least, "one has more than one that wants more")
			if n < wants[i] {
				cut++
				assert.Equal(t, least, n)
			}
		}
		assert.True(t, cut == 0 || spare < cut, "%d are left for %d", spare, cut)
		i := rapid.IntRange(0, len(wants)-1).Draw(t, "less")
		fewer := slices.Clone(wants)
		fewer[i] = rapid.IntRange(1, wants[i]).Draw(t, "wants less")
		for j := range wants {
			if j != i {
				assert.GreaterOrEqual(t, share(fewer, j), shares[j])
			}
		}
	})
}
