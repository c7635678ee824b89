package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// maxResources is the most resources that CloudFormation accepts in a stack.
const maxResources = 500

// count writes the number of resources of each kind in templates.
func count(w io.Writer, templates []string) error {
	for _, path := range templates {
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var template struct {
			Resources map[string]struct{ Type string }
		}
		if err := json.Unmarshal(data, &template); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		kinds := map[string]int{}
		for _, r := range template.Resources {
			kinds[strings.TrimPrefix(r.Type, "AWS::")]++
		}
		name := strings.TrimSuffix(filepath.Base(path), ".template.json")
		fmt.Fprintf(w, "%s: %d of %d resources, %d KB\n", name, len(template.Resources), maxResources, len(data)>>10)
		for _, kind := range slices.Sorted(maps.Keys(kinds)) {
			fmt.Fprintf(w, "  %4d %s\n", kinds[kind], kind)
		}
	}
	return nil
}
