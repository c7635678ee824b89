package session

import (
	"bytes"
	"context"
	"encoding/json"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"strconv"

	"github.com/spf13/cobra"

	"millrace/localstack/cli/output"
	"millrace/localstack/client"
)

// Get makes a GET request, and prints the API's JSON or shows the response.
func Get[T any](c *cobra.Command, s *Session, path string, show func(*output.Printer, T) error) error {
	api, err := s.Client()
	if err != nil {
		return err
	}
	return Send(c, s, api, http.MethodGet, path, nil, show)
}

// Change makes a request that changes something, and prints the API's JSON or
// what did prints of the response.
func Change[T any](c *cobra.Command, s *Session, method, path string, body any, did func(*output.Printer, T)) error {
	api, err := s.Changing(c)
	if err != nil {
		return err
	}
	return Send(c, s, api, method, path, body, func(out *output.Printer, v T) error {
		did(out, v)
		return nil
	})
}

// Send makes a request with a client, and prints the API's JSON or shows the
// response. body may be nil.
func Send[T any](c *cobra.Command, s *Session, api *client.Client, method, path string, body any, show func(*output.Printer, T) error) error {
	var answer json.RawMessage
	if err := api.Do(c.Context(), method, path, body, &answer); err != nil {
		return err
	}
	return Show(s.Out(c), answer, show)
}

// Show prints the API's JSON or shows the response.
func Show[T any](out *output.Printer, answer json.RawMessage, show func(*output.Printer, T) error) error {
	if out.JSON {
		return out.Value(answer)
	}
	var v T
	if err := json.Unmarshal(answer, &v); err != nil {
		return err
	}
	return show(out, v)
}

// List reads all pages of a list, and prints one document of the API's JSON or a
// table. query may be nil.
func List[T any](c *cobra.Command, s *Session, path string, query url.Values, columns output.Columns[T]) error {
	return list(c, s, path, query, 0, nil, columns)
}

// First is List of up to limit items, which it reads in pages of pageSize.
func First[T any](c *cobra.Command, s *Session, path string, query url.Values, limit, pageSize int, columns output.Columns[T]) error {
	return list(c, s, path, query, limit, func(read int) int { return min(limit-read, pageSize) }, columns)
}

func list[T any](c *cobra.Command, s *Session, path string, query url.Values, limit int, size func(read int) int, columns output.Columns[T]) error {
	api, err := s.Client()
	if err != nil {
		return err
	}
	var items [][]byte
	for item, err := range pages(c.Context(), api, path, query, size) {
		if err != nil {
			return err
		}
		if items = append(items, item); len(items) == limit {
			break
		}
	}
	answer := `{"items":[` + string(bytes.Join(items, []byte(","))) + "]}"
	return Show(s.Out(c), json.RawMessage(answer), func(out *output.Printer, list struct {
		Items []T `json:"items"`
	}) error {
		return columns.Print(out, list.Items...)
	})
}

// Lines reads up to limit items of a list in pages of pageSize, and prints them as
// lines of JSON while it reads, or as a table.
func Lines[T any](c *cobra.Command, s *Session, path string, query url.Values, limit, pageSize int, columns output.Columns[T]) error {
	api, err := s.Client()
	if err != nil {
		return err
	}
	out := s.Out(c)
	var items []T
	size := func(read int) int { return min(limit-read, pageSize) }
	for item, err := range pages(c.Context(), api, path, query, size) {
		if err != nil {
			return err
		}
		var v T
		if out.JSON {
			err = out.Line(item)
		} else {
			err = json.Unmarshal(item, &v)
		}
		if err != nil {
			return err
		}
		if items = append(items, v); len(items) == limit {
			break
		}
	}
	if out.JSON {
		return nil
	}
	return columns.Print(out, items...)
}

// pages yields the items of a list, page by page, or an error at the end. size
// returns the size of the next page, after the items that were read; nil if the query
// has it.
func pages(ctx context.Context, api *client.Client, path string, query url.Values, size func(read int) int) iter.Seq2[json.RawMessage, error] {
	return func(yield func(json.RawMessage, error) bool) {
		query := maps.Clone(query)
		if query == nil {
			query = url.Values{}
		}
		for read := 0; ; {
			if size != nil {
				query.Set("limit", strconv.Itoa(size(read)))
			}
			var page struct {
				Items []json.RawMessage `json:"items"`
				Next  string            `json:"next_token"`
			}
			at := path
			if len(query) > 0 {
				at += "?" + query.Encode()
			}
			if err := api.Do(ctx, http.MethodGet, at, nil, &page); err != nil {
				yield(nil, err)
				return
			}
			read += len(page.Items)
			for _, item := range page.Items {
				if !yield(item, nil) {
					return
				}
			}
			if page.Next == "" {
				return
			}
			query.Set("next_token", page.Next)
		}
	}
}
