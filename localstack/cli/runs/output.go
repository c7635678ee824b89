package runs

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strconv"

	"github.com/spf13/cobra"

	"millrace/localstack/cli/command"
	"millrace/localstack/cli/session"
	"millrace/localstack/client"
)

// instance matches a task, or an instance of a mapped one.
var instance = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9_-]*)(?:\[(\d+)\])?$`)

func outputCommand(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:   "output RUN TASK[i]",
		Short: "Print a task's return value: text unchanged, everything else as JSON",
		Long:  "Prints a task's return value, of any size: text unchanged, everything else as JSON; of a mapped task the\nlist, of price[3] that of one instance. " + naming,
		Args:  command.Exactly(2),
		RunE: func(c *cobra.Command, args []string) error {
			m := instance.FindStringSubmatch(args[1])
			if m == nil {
				return command.Usagef("%q is no task, such as price or price[3]", args[1])
			}
			api, err := s.Client()
			if err != nil {
				return err
			}
			id, err := find(c.Context(), api, args[0])
			if err != nil {
				return err
			}
			run, err := api.Run(c.Context(), id)
			if err != nil {
				return err
			}
			value, whole, err := inline(run, m[1], m[2])
			if err != nil {
				return err
			}
			if !whole {
				if value, err = download(c, api, id, m[1], m[2]); err != nil {
					return err
				}
			}
			out := s.Out(c)
			var text string
			if !out.JSON && json.Unmarshal(value, &text) == nil {
				if out.Terminal {
					text += "\n"
				}
				return out.Raw([]byte(text))
			}
			return out.Value(value)
		},
	}
}

// inline returns the output that is included in the run's detail; whole is false if
// some of it is too large for that. Errors: there is no such task, or it returned
// nothing.
func inline(run client.Run, task, index string) (value json.RawMessage, whole bool, err error) {
	newest := map[int]client.TaskRun{}
	last := -1
	for _, t := range run.Task(task) {
		at := 0
		if t.MapIndex != nil {
			at = *t.MapIndex
			last = max(last, at)
		}
		newest[at] = t
	}
	missing := func(format string, args ...any) (json.RawMessage, bool, error) {
		return nil, false, &command.Error{Code: command.NotFound, Err: fmt.Errorf(format, args...)}
	}
	if len(newest) == 0 {
		return missing("%s has no task %s that began (see millrace runs get %s)", run.Slug, task, run.Slug)
	}
	if last < 0 || index != "" {
		at, _ := strconv.Atoi(index) // matched as digits
		t, ok := newest[at]
		if !ok || last < 0 && index != "" {
			return missing("%s has no instance %s[%s]", run.Slug, task, index)
		}
		if t.Output == nil && t.OutputURI == "" {
			return missing("%s is %s and returned nothing", label(t), t.Status)
		}
		return t.Output, t.OutputURI == "", nil
	}
	list := make([]json.RawMessage, last+1)
	for i := range list {
		if newest[i].OutputURI != "" {
			return nil, false, nil
		}
		if list[i] = newest[i].Output; list[i] == nil {
			list[i] = json.RawMessage("null")
		}
	}
	value, err = json.Marshal(list)
	return value, true, err
}

// download returns an output of any size.
func download(c *cobra.Command, api *client.Client, id, task, index string) (json.RawMessage, error) {
	target := path(id, "tasks", task, "output")
	if index != "" {
		target += "?" + url.Values{"map_index": {index}}.Encode()
	}
	res, err := api.Send(c.Context(), http.MethodGet, target, nil, nil)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	return io.ReadAll(res.Body)
}
