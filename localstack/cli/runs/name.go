package runs

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"millrace/localstack/cli/command"
	"millrace/localstack/client"
)

var (
	runName = regexp.MustCompile(`^[A-Za-z0-9-]+$`)
	digits  = regexp.MustCompile(`^[0-9]+$`)
)

// find resolves a name of a run to what the API accepts: an id or a slug unchanged, the
// id of the run whose slug ends with the digits if it is unique among the newest runs,
// or for "last" the id of the caller's newest run.
func find(ctx context.Context, api *client.Client, name string) (id string, err error) {
	switch {
	case !runName.MatchString(name):
		return "", command.Usagef("%q is no run: name its id, its slug, the slug's last digits, or last", name)
	case name == "last":
		return newest(ctx, api)
	case !digits.MatchString(name):
		return name, nil
	}
	items, err := runs(ctx, api, url.Values{}, most)
	if err != nil {
		return "", err
	}
	var found []client.Run
	for _, run := range items {
		if strings.HasSuffix(run.Slug, "-"+name) {
			found = append(found, run)
		}
	}
	switch len(found) {
	case 1:
		return found[0].RunID, nil
	case 0:
		return "", &command.Error{Code: command.NotFound, Err: fmt.Errorf("none of the newest %d runs ends in -%s (see millrace runs)", most, name)}
	}
	return "", fmt.Errorf("%s is %s and %s: name one of them", name, found[0].RunID+" ("+found[0].Slug+")", found[1].RunID+" ("+found[1].Slug+")")
}

// newest returns the id of the caller's newest run. A key does not know its own id, so
// for a key it is the newest run that any key has started.
func newest(ctx context.Context, api *client.Client) (string, error) {
	var me struct {
		Email string `json:"user_email"`
		Role  string `json:"role"` // "" for an API key
	}
	if err := api.Do(ctx, http.MethodGet, "/me", nil, &me); err != nil {
		return "", err
	}
	query, limit := url.Values{"triggered_by": {me.Email}}, 1
	if me.Role == "" {
		query, limit = url.Values{}, most
	}
	items, err := runs(ctx, api, query, limit)
	if err != nil {
		return "", err
	}
	for _, run := range items {
		if me.Role != "" || strings.HasPrefix(run.TriggeredBy, "api-key:") {
			return run.RunID, nil
		}
	}
	if me.Role != "" {
		return "", &command.Error{Code: command.NotFound, Err: fmt.Errorf("%s has started no run (see millrace runs)", me.Email)}
	}
	return "", &command.Error{Code: command.NotFound, Err: fmt.Errorf("no API key has started one of the newest %d runs (see millrace runs)", most)}
}

// runs is [list] with decoded runs.
func runs(ctx context.Context, api *client.Client, query url.Values, limit int) ([]client.Run, error) {
	items, err := list(ctx, api, query, limit)
	if err != nil {
		return nil, err
	}
	out := make([]client.Run, len(items))
	for i, item := range items {
		if err := json.Unmarshal(item, &out[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// path returns the path of a run, or one below it.
func path(id string, below ...string) string {
	for _, part := range below {
		id += "/" + url.PathEscape(part)
	}
	return "/runs/" + id
}
