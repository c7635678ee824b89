package flows

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"millrace/localstack/client"
)

var taskPath = regexp.MustCompile(`^body\.flow_spec\.tasks\[(\d+)\]`)

// Locate adds to each message of an API error its file and line in the user's code: of
// the task that it names, or of the flow. Other errors are returned unchanged.
func (f Flow) Locate(err error) error {
	apiErr, ok := errors.AsType[*client.Error](err)
	if !ok {
		return err
	}
	var lines []string
	for line := range strings.Lines(apiErr.Detail()) {
		at := f.Name
		if f.File != "" {
			at = fmt.Sprintf("%s:%d", f.File, f.Line)
		}
		if found := taskPath.FindStringSubmatch(line); found != nil {
			if i, err := strconv.Atoi(found[1]); err == nil && i < len(f.Lines) && f.Lines[i] != "" {
				at = f.Lines[i]
			}
		}
		lines = append(lines, at+": "+strings.TrimRight(line, "\n"))
	}
	return errors.New(strings.Join(lines, "\n"))
}

// describe adds file and line to an error about the flow_spec, and the flow's name and
// version to any other error.
func (f Flow) describe(version string, err error) error {
	if apiErr, ok := errors.AsType[*client.Error](err); ok && apiErr.Status == http.StatusUnprocessableEntity {
		switch detail := apiErr.Detail(); {
		case strings.HasPrefix(detail, "body.flow_spec"):
			return f.Locate(err)
		case strings.HasPrefix(detail, "body.size_bytes"):
			err = fmt.Errorf("the zip of the folder is larger than the server takes: move data and builds out of it, "+
				"or into a hidden folder, which is left out as venv and node_modules are: %w", err)
		}
	}
	return fmt.Errorf("%s %s: %w", f.Name, version, err)
}
