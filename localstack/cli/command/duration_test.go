package command

import (
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestDurationsHaveDays(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"90m": 90 * time.Minute, "1d": 24 * time.Hour, "1d12h": 36 * time.Hour, "0s": 0, "1h30m": 90 * time.Minute, "-1h": -time.Hour, "106751d": 106751 * 24 * time.Hour,
	} {
		got, err := ParseDuration(text)
		require.NoError(t, err, text)
		assert.Equal(t, want, got, text)
		again, err := ParseDuration(FormatDuration(got))
		require.NoError(t, err, text)
		assert.Equal(t, want, again, text)
	}
	for _, text := range []string{"", "1x", "d", "-1d", "1.5d", "1d-2h", "1d12", "106751d24h", "106752d", "99999999999999999999d", "tomorrow", "1dd"} {
		_, err := ParseDuration(text)
		assert.ErrorContains(t, err, "is no duration such as", text)
	}
	for d, want := range map[time.Duration]string{
		time.Hour: "1h", 90 * time.Minute: "1h30m", 48 * time.Hour: "2d", 36 * time.Hour: "36h", 10 * time.Second: "10s",
		10 * time.Minute: "10m", 20 * time.Hour: "20h", 0: "0s", time.Hour + time.Second: "1h0m1s",
	} {
		assert.Equal(t, want, FormatDuration(d))
	}
	var every time.Duration
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	DurationVar(f, &every, "every", "interval")
	require.NoError(t, f.Parse([]string{"--every", "1d"}))
	assert.Equal(t, 24*time.Hour, every)
	require.ErrorContains(t, f.Parse([]string{"--every", "soon"}), `"soon" is no duration such as 90s, 90m, 12h or 7d`)
}
