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

var taskPlace = regexp.MustCompile(`^body\.flow_spec\.tasks\[(\d+)\]`)

// Placed says of a refusal where in the user's files it is: at the task that it names, or
// at the flow. Any other error stays as it is.
func (f Flow) Placed(err error) error {
	refused, ok := errors.AsType[*client.Error](err)
	if !ok {
		return err
	}
	var lines []string
	for line := range strings.Lines(refused.Detail()) {
		at := f.Name
		if f.File != "" {
			at = fmt.Sprintf("%s:%d", f.File, f.Line)
		}
		if found := taskPlace.FindStringSubmatch(line); found != nil {
			if i, err := strconv.Atoi(found[1]); err == nil && i < len(f.Lines) && f.Lines[i] != "" {
				at = f.Lines[i]
			}
		}
		lines = append(lines, at+": "+strings.TrimRight(line, "\n"))
	}
	return errors.New(strings.Join(lines, "\n"))
}

// refused places what is wrong with the flow. For an error that is of something else it
// names the flow and its version.
func (f Flow) refused(version string, err error) error {
	if refused, ok := errors.AsType[*client.Error](err); ok && refused.Status == http.StatusUnprocessableEntity && strings.HasPrefix(refused.Detail(), "body.flow_spec") {
		return f.Placed(err)
	}
	return fmt.Errorf("%s %s: %w", f.Name, version, err)
}
