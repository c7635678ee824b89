// Package exceptions has the commands of platform administrators about the
// traces of requests that failed unexpectedly.
package exceptions

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"millrace/localstack/cli/command"
	"millrace/localstack/cli/session"
)

const (
	// pageSize is the most traces of a page.
	pageSize = 200
	// mostKeys is the most keys of one deletion.
	mostKeys = 100
)

// Commands returns the commands of this package.
func Commands(s *session.Session) []*cobra.Command {
	return []*cobra.Command{command.Group(&cobra.Command{
		Use:   "exceptions",
		Short: "List, read and delete the traces of requests that failed unexpectedly (platform administrators)",
	}, listCommand(s), getCommand(s), deleteCommand(s))}
}

// trace is the part of a trace that lists print.
type trace struct {
	Key       string    `json:"key"`
	Time      time.Time `json:"timestamp"`
	RequestID string    `json:"request_id"`
	Type      string    `json:"exception_type"`
	Method    string    `json:"http_method"`
	Path      string    `json:"http_path"`
	Org       string    `json:"org_id"`
}

func listCommand(s *session.Session) *cobra.Command {
	var limit int
	c := &cobra.Command{
		Use:   "list",
		Short: "List traces of all workspaces, the newest first",
		Args:  command.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if limit < 1 {
				return command.Usagef("--limit must be at least 1")
			}
			return list(c, s, limit)
		},
	}
	c.Flags().IntVar(&limit, "limit", 50, "most traces")
	return c
}

// list prints up to limit traces, page by page.
func list(c *cobra.Command, s *session.Session, limit int) error {
	api, err := s.Client()
	if err != nil {
		return err
	}
	out, query, rows := s.Out(c), url.Values{}, [][]string{}
	for limit > 0 {
		query.Set("limit", strconv.Itoa(min(limit, pageSize)))
		var page struct {
			Items []json.RawMessage `json:"items"`
			Next  string            `json:"next_token"`
		}
		if err := api.Do(c.Context(), http.MethodGet, "/admin/exceptions?"+query.Encode(), nil, &page); err != nil {
			return err
		}
		for _, item := range page.Items {
			var t trace
			if err := json.Unmarshal(item, &t); err != nil {
				return err
			}
			if out.JSON {
				if err := out.Line(item); err != nil {
					return err
				}
			}
			rows = append(rows, []string{out.Time(t.Time), t.Method + " " + t.Path, t.Type, t.Org, t.RequestID, t.Key})
		}
		if limit -= len(page.Items); page.Next == "" {
			break
		}
		query.Set("next_token", page.Next)
	}
	if out.JSON {
		return nil
	}
	return out.Table([]string{"TIME", "REQUEST", "EXCEPTION", "WORKSPACE", "REQUEST ID", "KEY"}, rows)
}

func getCommand(s *session.Session) *cobra.Command {
	var link bool
	c := &cobra.Command{
		Use:   "get KEY",
		Short: "Print a trace, as JSON",
		Args:  command.Exactly(1),
		RunE: func(c *cobra.Command, args []string) error {
			api, err := s.Client()
			if err != nil {
				return err
			}
			query := "?" + url.Values{"key": args}.Encode()
			out := s.Out(c)
			var answer json.RawMessage
			if !link {
				if err := api.Do(c.Context(), http.MethodGet, "/admin/exceptions/content"+query, nil, &answer); err != nil {
					return err
				}
				return out.Value(answer)
			}
			if err := api.Do(c.Context(), http.MethodGet, "/admin/exceptions/download"+query, nil, &answer); err != nil {
				return err
			}
			if out.JSON {
				return out.Value(answer)
			}
			var found struct {
				URL string `json:"url"`
			}
			if err := json.Unmarshal(answer, &found); err != nil {
				return err
			}
			out.Printf("%s\n", found.URL)
			return nil
		},
	}
	c.Flags().BoolVar(&link, "link", false, "print a URL to download it, which is valid for 15 minutes and needs no credential")
	return c
}

func deleteCommand(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:   "delete KEY…",
		Short: "Delete traces",
		Args:  command.Args(cobra.RangeArgs(1, mostKeys)),
		RunE: func(c *cobra.Command, args []string) error {
			api, err := s.Changing(c)
			if err != nil {
				return err
			}
			var answer json.RawMessage
			if err := api.Do(c.Context(), http.MethodDelete, "/admin/exceptions", map[string][]string{"keys": args}, &answer); err != nil {
				return err
			}
			out := s.Out(c)
			if out.JSON {
				return out.Value(answer)
			}
			out.Printf("%d deleted\n", len(args))
			return nil
		},
	}
}
