// Package exceptions has the commands of platform administrators about the
// traces of requests that failed unexpectedly.
package exceptions

import (
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"millrace/localstack/cli/command"
	"millrace/localstack/cli/output"
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

var columns = output.Columns[trace]{
	Titles: []string{"TIME", "REQUEST", "EXCEPTION", "WORKSPACE", "REQUEST ID", "KEY"},
	Cells: func(out *output.Printer, t trace) []string {
		return []string{out.Time(t.Time), t.Method + " " + t.Path, t.Type, t.Org, t.RequestID, t.Key}
	},
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
			return session.Lines(c, s, "/admin/exceptions", nil, limit, pageSize, columns)
		},
	}
	c.Flags().IntVar(&limit, "limit", 50, "most traces")
	return c
}

func getCommand(s *session.Session) *cobra.Command {
	var link bool
	c := &cobra.Command{
		Use:   "get KEY",
		Short: "Print a trace, as JSON",
		Args:  command.Exactly(1),
		RunE: func(c *cobra.Command, args []string) error {
			query := "?" + url.Values{"key": args}.Encode()
			if link {
				return session.Get(c, s, "/admin/exceptions/download"+query, func(out *output.Printer, found struct {
					URL string `json:"url"`
				}) error {
					out.Printf("%s\n", found.URL)
					return nil
				})
			}
			return session.Get(c, s, "/admin/exceptions/content"+query, (*output.Printer).Value)
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
			return session.Change(c, s, http.MethodDelete, "/admin/exceptions", map[string][]string{"keys": args}, func(out *output.Printer, _ any) {
				out.Printf("%d deleted\n", len(args))
			})
		},
	}
}
