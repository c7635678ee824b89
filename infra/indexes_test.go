package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMoreThanOneChangeOfIndexesIsRefused(t *testing.T) {
	t.Parallel()
	const golden = "testdata/data.template.json"
	all, err := templateIndexes(golden)
	require.NoError(t, err)
	require.Greater(t, len(all), 3)
	other := slices.Clone(all)
	other[0].Projection.ProjectionType = "other"
	renamed := slices.Clone(all)
	renamed[1].IndexName = "new"
	for name, c := range map[string]struct {
		before, after []index
		want          string
	}{
		"the same":   {all, all, ""},
		"no table":   {nil, all, ""},
		"one more":   {all[1:], all, ""},
		"one less":   {all, all[1:], ""},
		"two more":   {all[2:], all, "changes 2 indexes of the table"},
		"two less":   {all, all[2:], "deletes " + min(all[0].IndexName, all[1].IndexName)},
		"another":    {all, renamed, "deletes " + all[1].IndexName + ", creates new"},
		"redefined":  {all, other, "deletes " + all[0].IndexName + ", creates " + all[0].IndexName},
		"in another": {slices.Concat(all[1:], all[:1]), all, ""},
	} {
		err := checkIndexes(c.before, c.after)
		if c.want == "" {
			require.NoError(t, err, name)
			continue
		}
		require.ErrorContains(t, err, c.want, name)
	}

	ask := func(context.Context, string, string) ([]index, error) { return all[2:], nil }
	var out bytes.Buffer
	require.ErrorContains(t, indexes(t.Context(), &out, ask, []string{"check-table", "t", "r", golden}), "creates")
	require.NoError(t, indexes(t.Context(), &out, ask, []string{"check", golden, golden}))
	require.ErrorContains(t, indexes(t.Context(), &out, ask, []string{"check", golden}), "usage")
	none := filepath.Join(t.TempDir(), "none.json")
	require.NoError(t, os.WriteFile(none, []byte(`{"Resources":{}}`), 0o600))
	require.ErrorContains(t, indexes(t.Context(), &out, ask, []string{"check", none, golden}), "has no table")
}

func TestDeploymentWaitsForIndexes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		ask := func(_ context.Context, table, region string) ([]index, error) {
			assert.Equal(t, []string{"millrace-acme-prod-table", "eu-west-1"}, []string{table, region})
			status := "CREATING"
			if time.Since(began) > time.Hour {
				status = "ACTIVE"
			}
			return []index{{IndexName: "due", IndexStatus: "ACTIVE"}, {IndexName: "new", IndexStatus: status}}, nil
		}
		var out bytes.Buffer
		args := []string{"wait", "millrace-acme-prod-table", "eu-west-1"}
		require.NoError(t, indexes(t.Context(), &out, ask, args))
		assert.Greater(t, time.Since(began), time.Hour)
		assert.Equal(t, "waiting for the indexes of millrace-acme-prod-table: new is CREATING\n", out.String())

		down := errors.New("no credentials")
		require.ErrorIs(t, indexes(t.Context(), &out, func(context.Context, string, string) ([]index, error) { return nil, down }, args), down)
	})
}

// TestIndexesOfDynamoDB reads an answer of the AWS CLI, from a stand-in for it.
func TestIndexesOfDynamoDB(t *testing.T) {
	dir := t.TempDir()
	all, err := templateIndexes("testdata/data.template.json")
	require.NoError(t, err)
	all[0].IndexStatus = "CREATING"
	answer, err := json.Marshal(object{"Table": object{"TableName": "t", "GlobalSecondaryIndexes": all}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "answer"), answer, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "aws"), []byte(`#!/bin/sh
case "$*" in
*"--table-name t --region r --output json") cat `+filepath.Join(dir, "answer")+` ;;
*"--table-name none "*) echo "An error occurred (ResourceNotFoundException)" >&2; exit 254 ;;
*) echo "Unable to locate credentials" >&2; exit 253 ;;
esac
`), 0o700))
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	got, err := awsIndexes(t.Context(), "t", "r")
	require.NoError(t, err)
	assert.Equal(t, all, got)
	got, err = awsIndexes(t.Context(), "none", "r")
	require.NoError(t, err)
	assert.Empty(t, got)
	_, err = awsIndexes(t.Context(), "other", "r")
	require.ErrorContains(t, err, "Unable to locate credentials")
}
