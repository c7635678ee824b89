package runs

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"millrace/localstack/cli/command"
	"millrace/localstack/client"
)

var (
	runID  = regexp.MustCompile(`^[0-9A-HJKMNP-TV-Z]{26}$`)
	digits = regexp.MustCompile(`^[0-9]+$`)
)

// find returns the id of the run that a name means: its id, its slug, the slug's last
// digits where they are unique among the newest runs, or "last" for the caller's newest.
func find(ctx context.Context, api *client.Client, name string) (id string, err error) {
	if runID.MatchString(name) {
		return name, nil
	}
	if name == "" || strings.ContainsAny(name, "/?#") {
		return "", command.Usagef("%q is no run: name its id, its slug, the slug's last digits, or last", name)
	}
	var page struct {
		Items []client.Run `json:"items"`
	}
	if err := api.Do(ctx, http.MethodGet, "/runs?"+url.Values{"limit": {strconv.Itoa(most)}}.Encode(), nil, &page); err != nil {
		return "", err
	}
	if name == "last" {
		return newest(ctx, api, page.Items)
	}
	var found []client.Run
	for _, run := range page.Items {
		if run.Slug == name || digits.MatchString(name) && strings.HasSuffix(run.Slug, "-"+name) {
			found = append(found, run)
		}
	}
	switch {
	case len(found) == 1:
		return found[0].RunID, nil
	case len(found) > 1:
		return "", fmt.Errorf("%s is %s and %s: name one of them", name, found[0].RunID+" ("+found[0].Slug+")", found[1].RunID+" ("+found[1].Slug+")")
	case digits.MatchString(name):
		return "", &command.Error{Code: command.NotFound, Err: fmt.Errorf("none of the newest %d runs ends in -%s (see millrace runs)", most, name)}
	}
	return name, nil // an older one's slug, which the server may know
}

// newest is the caller's newest run. A key does not know its own id, so that its newest
// is the newest that any key has started.
func newest(ctx context.Context, api *client.Client, runs []client.Run) (string, error) {
	var me struct {
		Email string `json:"user_email"`
		Role  string `json:"role"` // empty of an API key
	}
	if err := api.Do(ctx, http.MethodGet, "/me", nil, &me); err != nil {
		return "", err
	}
	for _, run := range runs {
		if run.TriggeredBy == me.Email || me.Role == "" && strings.HasPrefix(run.TriggeredBy, "api-key:") {
			return run.RunID, nil
		}
	}
	return "", &command.Error{Code: command.NotFound, Err: fmt.Errorf("%s has no run among the newest %d (see millrace runs)", me.Email, most)}
}

// path is the path of a run, or of what is below it.
func path(id string, below ...string) string {
	for _, part := range below {
		id += "/" + url.PathEscape(part)
	}
	return "/runs/" + id
}
