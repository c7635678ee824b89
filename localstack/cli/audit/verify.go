package audit

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"millrace/localstack/cli/command"
	"millrace/localstack/cli/session"
	"millrace/shared/platform/signature"
)

// verification is the result of verifying some days.
type verification struct {
	Status     string  `json:"status"`
	FirstDay   *string `json:"first_day"`
	LastDay    *string `json:"last_day"`
	LastDigest *string `json:"last_digest"`
	Signature  *signed `json:"signature"`
	Days       int     `json:"days"`
	Entries    int     `json:"entries"`
	Fault      *struct {
		Day    string `json:"day"`
		Reason string `json:"reason"`
	} `json:"fault"`
	NextDate *string `json:"next_date"`
}

// signed is the signature of a digest.
type signed struct {
	KeyID     string `json:"key_id"`
	Algorithm string `json:"algorithm"`
	Message   string `json:"message"`
	Value     []byte `json:"value"`
	PublicKey string `json:"public_key"`
}

func verifyCommand(s *session.Session) *cobra.Command {
	var since, until, keyFile string
	c := &cobra.Command{
		Use:   "verify",
		Short: "Verify that the entries of past days were not changed",
		Long: "After each UTC day the server signs a digest of the day's entries, which names that of the day before.\n" +
			"verify has it compute the digests anew, and prints the first day that does not fit, with exit code 1:\n" +
			"entries or digests were changed, added or removed. Keep the digest of the last day that it prints in\n" +
			"another place: it covers all days before it, and shows later that none of them was digested anew.\n" +
			"Keep the public key as well (--json shows it): with --public-key FILE the signature is verified here,\n" +
			"with that key, instead of trusting the server.",
		Args: command.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			query := url.Values{}
			key, err := readKey(keyFile)
			if err != nil {
				return err
			}
			for name, day := range map[string]string{"start_date": since, "end_date": until} {
				if day == "" {
					continue
				}
				if _, err := time.Parse(time.DateOnly, day); err != nil {
					return command.Usagef("%q is not a day such as 2026-01-31", day)
				}
				query.Set(name, day)
			}
			return verify(c, s, query, key)
		},
	}
	c.Flags().StringVar(&since, "since", "", "first day to verify, in UTC (default: the first one that was digested)")
	c.Flags().StringVar(&until, "until", "", "last day to verify (default: the last one that is over)")
	c.Flags().StringVar(&keyFile, "public-key", "", "a file with the public key in PEM that must have signed the last digest")
	return c
}

// readKey reads a public key, nil if no file is named.
func readKey(file string) (*signature.PublicKey, error) {
	if file == "" {
		return nil, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, command.Usagef("--public-key: %w", err)
	}
	key, err := signature.ParsePEM(text)
	if err != nil {
		return nil, command.Usagef("--public-key: %s: %w", file, err)
	}
	return &key, nil
}

// verify verifies days, one page per request, and prints the total. The key, if
// there is one, must have signed the last digest.
func verify(c *cobra.Command, s *session.Session, query url.Values, key *signature.PublicKey) error {
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
			part.LastDay, part.LastDigest, part.Signature = sum.LastDay, sum.LastDigest, sum.Signature
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
	if key != nil && sum.LastDay != nil && !sum.signedBy(*key) {
		return &command.Error{Code: command.Failure, Err: fmt.Errorf("the digest of %s is not signed with the key of --public-key", *sum.LastDay)}
	}
	return nil
}

// signedBy reports whether a key signed the last digest. The text that is
// signed ends in its day and the digest.
func (v verification) signedBy(key signature.PublicKey) bool {
	s := v.Signature
	return s != nil && strings.HasSuffix(s.Message, " "+*v.LastDay+" "+*v.LastDigest) &&
		key.Signed([]byte(s.Message), signature.Signature{KeyID: key.ID(), Value: s.Value})
}

func (v verification) print(printf func(string, ...any)) {
	switch {
	case v.LastDay != nil:
		printf("%d days with %d entries are as they were, %s to %s\n%s sha256:%s\n", v.Days, v.Entries, *v.FirstDay, *v.LastDay, *v.LastDay, *v.LastDigest)
	case v.Fault == nil:
		printf("no day is digested yet: the first one is, within two hours of its end in UTC\n")
	}
}
