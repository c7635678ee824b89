// Package audit has the commands about the audit log.
package audit

import (
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"millrace/localstack/cli/command"
	"millrace/localstack/cli/output"
	"millrace/localstack/cli/runs"
	"millrace/localstack/cli/session"
)

// pageSize is the maximum number of entries of a page.
const pageSize = 1000

// Commands returns the commands of this package.
func Commands(s *session.Session) []*cobra.Command {
	return []*cobra.Command{command.Group(&cobra.Command{
		Use:   "audit",
		Short: "List and verify the audit log: who changed what",
	}, listCommand(s), verifyCommand(s))}
}

// entry is the part of an entry that is printed.
type entry struct {
	Time     string  `json:"event_time"`
	Type     string  `json:"resource_type"`
	Resource string  `json:"resource_id"`
	Action   string  `json:"action"`
	Actor    *string `json:"actor_email"`
	KeyID    *string `json:"key_id"`
}

// at returns when the entry was written.
func (e entry) at() time.Time {
	stamp, _, _ := strings.Cut(e.Time, "#")
	at, _ := time.Parse(time.RFC3339, stamp)
	return at
}

// by returns the actor.
func (e entry) by() string {
	switch {
	case e.Actor == nil:
		return "the service"
	case e.KeyID != nil:
		return *e.Actor + " by key"
	}
	return *e.Actor
}

var columns = output.Columns[entry]{
	Titles: []string{"TIME", "ACTION", "TYPE", "RESOURCE", "BY"},
	Cells: func(out *output.Printer, e entry) []string {
		return []string{out.Time(e.at()), e.Action, e.Type, e.Resource, e.by()}
	},
}

// filters holds the flags of list.
type filters struct {
	kind, id, action, actor, since, until string
	limit                                 int
}

func listCommand(s *session.Session) *cobra.Command {
	var f filters
	c := &cobra.Command{
		Use:   "list",
		Short: "List the audit log, the newest entries first",
		Args:  command.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			path, query, err := f.request()
			if err != nil {
				return err
			}
			return session.Lines(c, s, path, query, f.limit, pageSize, columns)
		},
	}
	flags := c.Flags()
	flags.StringVar(&f.kind, "type", "", "only changes of resources of this type, such as secret or deployment")
	flags.StringVar(&f.id, "id", "", "only changes of this resource; needs --type, and no other filter")
	flags.StringVar(&f.action, "action", "", "only this action, such as delete")
	flags.StringVar(&f.actor, "actor", "", "only what this email did")
	flags.StringVar(&f.since, "since", "", "only entries since: a duration such as 90m or 7d, or a time in RFC 3339")
	flags.StringVar(&f.until, "until", "", "only entries until then, likewise")
	flags.IntVar(&f.limit, "limit", 50, "most entries")
	return c
}

// request returns the path and the query of the list.
func (f *filters) request() (string, url.Values, error) {
	query := url.Values{}
	if f.limit < 1 {
		return "", nil, command.Usagef("--limit must be at least 1")
	}
	if f.id != "" {
		if f.kind == "" || f.action+f.actor+f.since+f.until != "" {
			return "", nil, command.Usagef("--id needs --type, and goes with no other filter")
		}
		return "/audit-logs/resource/" + url.PathEscape(f.kind) + "/" + url.PathEscape(f.id), query, nil
	}
	for name, value := range map[string]string{"resource_type": f.kind, "action": f.action, "actor_email": f.actor} {
		if value != "" {
			query.Set(name, value)
		}
	}
	for flag, text := range map[string]string{"since": f.since, "until": f.until} {
		if text == "" {
			continue
		}
		at, err := runs.Since(text, time.Now())
		if err != nil {
			return "", nil, command.Usagef("--%s: %w", flag, err)
		}
		query.Set(map[string]string{"since": "start_date", "until": "end_date"}[flag], at.UTC().Format(time.RFC3339))
	}
	return "/audit-logs", query, nil
}
