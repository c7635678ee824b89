package session

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"millrace/localstack/cli/command"
	"millrace/localstack/cli/output"
	"millrace/localstack/client"
)

// id is the form of the ids of what has a name, too: a prefix and a ULID.
var id = regexp.MustCompile(`^[a-z_]+_[0-9A-HJKMNP-TV-Z]{26}$`)

// Named is a list of the API whose items have an id, and a name which several may have.
type Named struct {
	Path  string // of the list: /sensors
	Field string // of an item that has its id: sensor_id
	Noun  string // sensor
	List  string // the command that lists them
}

// Find returns the id of the item that a user names: an id unchanged, or the id of the
// only item of that name.
func (n Named) Find(ctx context.Context, api *client.Client, name string) (string, error) {
	if id.MatchString(name) {
		return name, nil
	}
	var found []string
	for item, err := range pages(ctx, api, n.Path, url.Values{"limit": {"1000"}}, nil) {
		if err != nil {
			return "", err
		}
		var fields map[string]any
		if err := json.Unmarshal(item, &fields); err != nil {
			return "", err
		}
		if fields["name"] == name {
			found = append(found, fmt.Sprint(fields[n.Field]))
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return "", &command.Error{Code: command.NotFound, Err: fmt.Errorf("there is no %s %s: %s shows them", n.Noun, name, n.List)}
	}
	return "", fmt.Errorf("%d are named %s: name the id of the %s, %s", len(found), name, n.Noun, strings.Join(found, " or "))
}

// GetNamed is [Get] for the item that a user names.
func GetNamed[T any](c *cobra.Command, s *Session, n Named, name string, show func(*output.Printer, T) error) error {
	api, err := s.Client()
	if err != nil {
		return err
	}
	return SendNamed(c, s, api, n, name, http.MethodGet, "", show)
}

// SendNamed is [Send] without a body for the item that a user names, or for what is
// below it: "/test".
func SendNamed[T any](c *cobra.Command, s *Session, api *client.Client, n Named, name, method, below string, show func(*output.Printer, T) error) error {
	id, err := n.Find(c.Context(), api, name)
	if err != nil {
		return err
	}
	return Send(c, s, api, method, n.Path+"/"+url.PathEscape(id)+below, nil, show)
}

// DeleteNamed deletes the item that a user names.
func DeleteNamed(c *cobra.Command, s *Session, n Named, name string) error {
	api, err := s.Changing(c)
	if err != nil {
		return err
	}
	return SendNamed(c, s, api, n, name, http.MethodDelete, "", func(out *output.Printer, _ any) error {
		out.Printf("%s %s is deleted\n", n.Noun, name)
		return nil
	})
}
