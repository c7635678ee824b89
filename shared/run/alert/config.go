package alert

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/net/http/httpguts"

	"millrace/shared/kit/mask"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/mail"
)

// Limits of a configuration.
const (
	maxURL     = 2048 // bytes
	maxSecret  = 1024
	maxHeaders = 20
	maxHeader  = 4096 // bytes of a header's value
)

// Config is the configuration of a channel. Which fields it has depends on the
// channel's type.
type Config struct {
	WebhookURL string            `json:"webhook_url,omitempty"` // of chat
	To         []string          `json:"to,omitempty"`          // of email
	URL        string            `json:"url,omitempty"`         // of webhook and incident
	Secret     string            `json:"secret,omitempty"`      // of webhook; empty: messages are not signed
	Headers    map[string]string `json:"headers,omitempty"`     // of webhook
	RoutingKey string            `json:"routing_key,omitempty"` // of incident
}

// setting is a field of the configuration of a type of channel. read checks and
// stores its value; it returns what is wrong with it, below the field at the path.
type setting struct {
	name     string
	required bool
	read     func(c *Config, value jsontext.Value) (fault error, path []any)
}

// settings are the fields of each type's configuration.
var settings = map[string][]setting{
	Chat:  {{"webhook_url", true, func(c *Config, v jsontext.Value) (error, []any) { return readURL(v, &c.WebhookURL), nil }}},
	Email: {{"to", true, readTo}},
	Webhook: {
		{"url", true, func(c *Config, v jsontext.Value) (error, []any) { return readURL(v, &c.URL), nil }},
		{"secret", false, readSecret},
		{"headers", false, readHeaders},
	},
	Incident: {
		{"routing_key", true, func(c *Config, v jsontext.Value) (error, []any) { return readText(v, &c.RoutingKey), nil }},
		{"url", false, func(c *Config, v jsontext.Value) (error, []any) { return readURL(v, &c.URL), nil }},
	},
}

// ParseConfig reads the configuration of a channel of a type, which is JSON; nil
// is an empty one. Errors: errs.Unprocessable with everything that is wrong; no
// message contains a value.
func ParseConfig(channelType string, text *string) (Config, error) {
	var config Config
	given := map[string]jsontext.Value{}
	if text != nil {
		if err := json.Unmarshal([]byte(*text), &given); err != nil {
			return config, errs.Validation(fault(malformed(err)))
		}
	}
	var faults []errs.Detail
	for _, s := range settings[channelType] {
		value, there := given[s.name]
		delete(given, s.name)
		switch {
		case there && value.Kind() != 'n':
			if err, path := s.read(&config, value); err != nil {
				faults = append(faults, fault(err, append([]any{s.name}, path...)...))
			}
		case s.required:
			faults = append(faults, errs.Detail{
				Type: "missing", Loc: errs.Body("config_json", s.name), Msg: "Field required for a channel of type " + channelType,
			})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		faults = append(faults, errs.Detail{
			Type: "extra_forbidden", Loc: errs.Body("config_json", name), Msg: "A channel of type " + channelType + " has " + names(channelType),
		})
	}
	if len(faults) > 0 {
		return Config{}, errs.Validation(faults...)
	}
	return config, nil
}

func fault(err error, path ...any) errs.Detail {
	return errs.Detail{Type: "value_error", Loc: errs.Body(append([]any{"config_json"}, path...)...), Msg: err.Error()}
}

// names lists the fields of a type's configuration.
func names(channelType string) string {
	var all []string
	for _, s := range settings[channelType] {
		all = append(all, s.name)
	}
	return strings.Join(all, ", ")
}

// malformed tells what is wrong with a text that is not a JSON object.
func malformed(err error) error {
	syntax, isSyntax := errors.AsType[*jsontext.SyntacticError](err)
	switch {
	case errors.Is(err, jsontext.ErrDuplicateName) && isSyntax:
		return fmt.Errorf("the field %s is there twice", strconv.Quote(syntax.JSONPointer.LastToken()))
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return errors.New("unexpected end of the JSON")
	case isSyntax:
		return fmt.Errorf("not JSON: %w at byte %d", syntax.Err, syntax.ByteOffset)
	}
	return errors.New("not a JSON object")
}

func readText(value jsontext.Value, into *string) error {
	switch err := json.Unmarshal(value, into); {
	case err != nil:
		return errors.New("must be a string")
	case *into == "":
		return errors.New("must not be empty")
	case *into == mask.Stars:
		return errors.New("is the mask of a value, not the value")
	case len(*into) > maxSecret:
		return fmt.Errorf("has more than %d bytes", maxSecret)
	}
	return nil
}

func readURL(value jsontext.Value, into *string) error {
	if err := json.Unmarshal(value, into); err != nil {
		return errors.New("must be a string")
	}
	u, err := url.Parse(*into)
	switch {
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Hostname() == "":
		return errors.New("must be an absolute http or https URL")
	case len(*into) > maxURL:
		return fmt.Errorf("has more than %d bytes", maxURL)
	}
	return nil
}

func readTo(c *Config, value jsontext.Value) (error, []any) {
	if err := json.Unmarshal(value, &c.To); err != nil {
		return errors.New("must be a list of addresses"), nil
	}
	if len(c.To) == 0 || len(c.To) > mail.MaxTo {
		return fmt.Errorf("must have 1 to %d addresses", mail.MaxTo), nil
	}
	for i, to := range c.To {
		if a, err := mail.Address(to); err != nil || a.Address != to {
			return errors.New("must be an address such as ann@example.com"), []any{i}
		}
	}
	return nil, nil
}

// whsec is the prefix of a webhook's secret in base64.
const whsec = "whsec_"

func readSecret(c *Config, value jsontext.Value) (error, []any) {
	if err := readText(value, &c.Secret); err != nil {
		return err, nil
	}
	if encoded, is := strings.CutPrefix(c.Secret, whsec); is {
		if key, err := base64.StdEncoding.DecodeString(encoded); err != nil || len(key) == 0 {
			return errors.New("is not base64 after " + whsec), nil
		}
	}
	return nil, nil
}

// reserved are the headers of a webhook that a channel cannot set.
var reserved = []string{
	"connection", "content-encoding", "content-length", "content-type", "expect", "host", "keep-alive", "proxy-connection", "te", "trailer",
	"transfer-encoding", "upgrade", "webhook-id", "webhook-signature", "webhook-timestamp",
}

func readHeaders(c *Config, value jsontext.Value) (error, []any) {
	if err := json.Unmarshal(value, &c.Headers); err != nil {
		return errors.New("must be an object of strings"), nil
	}
	if len(c.Headers) > maxHeaders {
		return fmt.Errorf("has more than %d headers", maxHeaders), nil
	}
	seen := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(c.Headers)) {
		text, lower := c.Headers[name], strings.ToLower(name)
		switch {
		case !httpguts.ValidHeaderFieldName(name):
			return errors.New("is no name of a header"), []any{name}
		case slices.Contains(reserved, lower):
			return errors.New("is a header that the service sets"), []any{name}
		case seen[lower]:
			return errors.New("is there twice: the names of headers do not distinguish case"), []any{name}
		case text == mask.Stars:
			return errors.New("is the mask of a value, not the value"), []any{name}
		case len(text) > maxHeader:
			return fmt.Errorf("has more than %d bytes", maxHeader), []any{name}
		case !httpguts.ValidHeaderFieldValue(text):
			return errors.New("has a character that no header can have"), []any{name}
		}
		seen[lower] = true
	}
	return nil, nil
}

// masked returns the configuration as it is shown.
func (c Config) masked() Config {
	for _, field := range []*string{&c.WebhookURL, &c.URL, &c.Secret, &c.RoutingKey} {
		if *field != "" {
			*field = mask.Stars
		}
	}
	c.Headers = maps.Clone(c.Headers)
	for name := range c.Headers {
		c.Headers[name] = mask.Stars
	}
	return c
}

// masker hides the configuration's secrets in texts. Of a URL it hides the whole
// and its path and query, which make it secret.
func (c Config) masker() *mask.Masker {
	var m mask.Masker
	for _, text := range []string{c.WebhookURL, c.URL} {
		m.Add(text)
		if u, err := url.Parse(text); err == nil {
			m.Add(u.RequestURI())
			if password, has := u.User.Password(); has {
				m.Add(password)
			}
		}
	}
	for _, secret := range append(slices.Collect(maps.Values(c.Headers)), c.Secret, strings.TrimPrefix(c.Secret, whsec), c.RoutingKey) {
		m.Add(secret)
	}
	return &m
}
