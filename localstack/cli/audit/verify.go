package audit

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"millrace/localstack/cli/command"
	"millrace/localstack/cli/session"
)

// verification is the result of verifying some days.
type verification struct {
	Status     string  `json:"status"`
	FirstDay   *string `json:"first_day"`
	LastDay    *string `json:"last_day"`
	LastDigest *string `json:"last_digest"`
	Days       int     `json:"days"`
	Entries    int     `json:"entries"`
	Fault      *struct {
		Day    string `json:"day"`
		Reason string `json:"reason"`
	} `json:"fault"`
	NextDate *string `json:"next_date"`
}

func verifyCommand(s *session.Session) *cobra.Command {
	var since, until string
	c := &cobra.Command{
		Use:   "verify",
		Short: "Verify that the entries of past days are as they were written",
		Long: "After each UTC day the server seals a digest of the day's entries, which names that of the day before.\n" +
			"verify has it compute the digests anew, and prints the first day that does not fit, with exit code 1:\n" +
			"entries or digests were changed, added or removed. Keep the digest of the last day that it prints in\n" +
			"another place: it covers all days before it, and shows later that none of them was digested anew.",
		Args: command.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			query := url.Values{}
			for name, day := range map[string]string{"start_date": since, "end_date": until} {
				if day == "" {
					continue
				}
				if _, err := time.Parse(time.DateOnly, day); err != nil {
					return command.Usagef("%q is not a day such as 2026-01-31", day)
				}
				query.Set(name, day)
			}
			return verify(c, s, query)
		},
	}
	c.Flags().StringVar(&since, "since", "", "first day to verify, in UTC (default: the first one that was digested)")
	c.Flags().StringVar(&until, "until", "", "last day to verify (default: the last one that is over)")
	return c
}

// verify verifies days, request by request, and prints the sum.
func verify(c *cobra.Command, s *session.Session, query url.Values) error {
	api, err := s.Client()
	if err != nil {
		return err
	}
	var sum verification
	for {
		var part verification
		if err := api.Do(c.Context(), http.MethodGet, "/audit-logs/verification?"+query.Encode(), nil, &part); err != nil {
			return err
		}
		if sum.FirstDay != nil {
			part.FirstDay = sum.FirstDay
		}
		if part.LastDay == nil {
			part.LastDay, part.LastDigest = sum.LastDay, sum.LastDigest
		}
		part.Days += sum.Days
		part.Entries += sum.Entries
		sum = part
		if sum.NextDate == nil {
			break
		}
		query.Set("start_date", *sum.NextDate)
	}
	out := s.Out(c)
	if out.JSON {
		data, err := json.Marshal(sum)
		if err == nil {
			err = out.Value(data)
		}
		if err != nil {
			return err
		}
	} else {
		sum.print(out.Printf)
	}
	if sum.Fault != nil {
		return &command.Error{Code: command.Failure, Err: fmt.Errorf("the audit log was tampered with: %s: %s", sum.Fault.Day, sum.Fault.Reason)}
	}
	return nil
}

func (v verification) print(printf func(string, ...any)) {
	switch {
	case v.LastDay != nil:
		printf("%d days with %d entries are as they were, %s to %s\n%s sha256:%s\n", v.Days, v.Entries, *v.FirstDay, *v.LastDay, *v.LastDay, *v.LastDigest)
	case v.Fault == nil:
		printf("no day is digested yet: the first one is, within two hours of its end in UTC\n")
	}
}
