package session

import (
	"encoding/json"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"

	"millrace/localstack/cli/output"
)

// List asks for all pages of a list, and prints the API's JSON or a table with a
// row for each item. query may be nil.
func List[T any](c *cobra.Command, s *Session, path string, query url.Values, titles []string, row func(*output.Printer, T) []string) error {
	api, err := s.Client()
	if err != nil {
		return err
	}
	if query == nil {
		query = url.Values{}
	}
	items := []json.RawMessage{}
	for {
		var page struct {
			Items     []json.RawMessage `json:"items"`
			NextToken string            `json:"next_token"`
		}
		at := path
		if len(query) > 0 {
			at += "?" + query.Encode()
		}
		if err := api.Do(c.Context(), http.MethodGet, at, nil, &page); err != nil {
			return err
		}
		items = append(items, page.Items...)
		if page.NextToken == "" {
			break
		}
		query.Set("next_token", page.NextToken)
	}
	out := s.Out(c)
	if out.JSON {
		all, err := json.Marshal(map[string]any{"items": items})
		if err != nil {
			return err
		}
		return out.Value(all)
	}
	rows := make([][]string, len(items))
	for i, item := range items {
		var v T
		if err := json.Unmarshal(item, &v); err != nil {
			return err
		}
		rows[i] = row(out, v)
	}
	return out.Table(titles, rows)
}

// Change makes a request that changes something, and prints the API's JSON or
// what did says of the answer.
func Change[T any](c *cobra.Command, s *Session, method, path string, body any, did func(*output.Printer, T)) error {
	api, err := s.Changing(c)
	if err != nil {
		return err
	}
	var answer json.RawMessage
	if err := api.Do(c.Context(), method, path, body, &answer); err != nil {
		return err
	}
	out := s.Out(c)
	if out.JSON {
		return out.Value(answer)
	}
	var v T
	if err := json.Unmarshal(answer, &v); err != nil {
		return err
	}
	did(out, v)
	return nil
}
