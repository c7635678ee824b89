package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// DynamoDB makes or deletes one index of a table in an update, and CloudFormation
// considers an index made that is still being filled. So a deployment with more
// than one change is refused, and new code waits for the index it queries.

// index is a global secondary index, in a template or in DynamoDB's answer.
type index struct {
	IndexName   string
	IndexStatus string `json:",omitempty"` // of an existing one: CREATING, ACTIVE …
	KeySchema   []struct{ AttributeName, KeyType string }
	Projection  struct{ ProjectionType string }
}

func (x index) definition() string { return fmt.Sprint(x.KeySchema, x.Projection) }

// describe returns the indexes of a table in a region; no indexes if there is no
// table.
type describe func(ctx context.Context, table, region string) ([]index, error)

// awsIndexes asks DynamoDB by the AWS CLI.
func awsIndexes(ctx context.Context, table, region string) ([]index, error) {
	cmd := exec.CommandContext(ctx, "aws", "dynamodb", "describe-table", "--table-name", table, "--region", region, "--output", "json")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if strings.Contains(stderr.String(), "ResourceNotFoundException") {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("aws dynamodb describe-table: %w: %s", err, strings.TrimSpace(stderr.String()))
	}
	var answer struct {
		Table struct{ GlobalSecondaryIndexes []index }
	}
	if err := json.Unmarshal(out, &answer); err != nil {
		return nil, fmt.Errorf("aws dynamodb describe-table: %w", err)
	}
	return answer.Table.GlobalSecondaryIndexes, nil
}

// templateIndexes returns the indexes of the table of a template file.
func templateIndexes(path string) ([]index, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var template struct {
		Resources map[string]struct {
			Type       string
			Properties json.RawMessage
		}
	}
	if err := json.Unmarshal(data, &template); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for _, r := range template.Resources {
		if r.Type != "AWS::DynamoDB::Table" {
			continue
		}
		var table struct{ GlobalSecondaryIndexes []index }
		if err := json.Unmarshal(r.Properties, &table); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		return table.GlobalSecondaryIndexes, nil
	}
	return nil, fmt.Errorf("%s has no table", path)
}

// checkIndexes refuses more than one change from the indexes of a table to those
// of a template. A table without indexes does not exist yet.
func checkIndexes(before, after []index) error {
	if len(before) == 0 {
		return nil
	}
	was, is := map[string]string{}, map[string]string{}
	for _, x := range before {
		was[x.IndexName] = x.definition()
	}
	for _, x := range after {
		is[x.IndexName] = x.definition()
	}
	var changes []string
	for _, name := range slices.Sorted(maps.Keys(was)) {
		if is[name] != was[name] {
			changes = append(changes, "deletes "+name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(is)) {
		if is[name] != was[name] {
			changes = append(changes, "creates "+name)
		}
	}
	if len(changes) <= 1 {
		return nil
	}
	return fmt.Errorf("this deployment changes %d indexes of the table, of which DynamoDB makes one change in an update: it %s. "+
		"Deploy a version with the first change, then the next", len(changes), strings.Join(changes, ", "))
}

// awaitIndexes waits until all indexes of a table can be queried.
func awaitIndexes(ctx context.Context, w io.Writer, ask describe, table, region string, every time.Duration) error {
	for said := ""; ; {
		list, err := ask(ctx, table, region)
		if err != nil {
			return err
		}
		var building []string
		for _, x := range list {
			if x.IndexStatus != "ACTIVE" {
				building = append(building, x.IndexName+" is "+x.IndexStatus)
			}
		}
		if len(building) == 0 {
			return nil
		}
		if say := strings.Join(building, ", "); say != said {
			fmt.Fprintf(w, "waiting for the indexes of %s: %s\n", table, say)
			said = say
		}
		select {
		case <-time.After(every):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// pollIndexes is the time between two questions after building indexes.
const pollIndexes = 10 * time.Second

// indexes runs the subcommand: "check BEFORE AFTER" compares two templates,
// "check-table TABLE REGION AFTER" a table with one, "wait TABLE REGION" waits.
func indexes(ctx context.Context, w io.Writer, ask describe, args []string) error {
	before := func() ([]index, error) { return templateIndexes(args[1]) }
	switch {
	case len(args) == 3 && args[0] == "wait":
		return awaitIndexes(ctx, w, ask, args[1], args[2], pollIndexes)
	case len(args) == 4 && args[0] == "check-table":
		before = func() ([]index, error) { return ask(ctx, args[1], args[2]) }
	case len(args) != 3 || args[0] != "check":
		return errors.New("usage: indexes check BEFORE AFTER | check-table TABLE REGION AFTER | wait TABLE REGION")
	}
	was, err := before()
	if err != nil {
		return err
	}
	is, err := templateIndexes(args[len(args)-1])
	if err != nil {
		return err
	}
	return checkIndexes(was, is)
}
