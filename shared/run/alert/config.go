package alert

import (
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

	"millrace/shared/kit/mask"
	"millrace/shared/platform/errs"
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
// stores its value; the error, which may be a partError, says what is wrong with it.
type setting struct {
	name     string
	required bool
	read     func(c *Config, value jsontext.Value) error
}

// partError says what is wrong with an element or a member of a field.
type partError struct {
	part any // its index or name
	error
}

// settings are the fields of each type's configuration.
var settings = map[string][]setting{
	Chat:  {{"webhook_url", true, func(c *Config, v jsontext.Value) error { return readURL(v, &c.WebhookURL) }}},
	Email: {{"to", true, readTo}},
	Webhook: {
		{"url", true, func(c *Config, v jsontext.Value) error { return readURL(v, &c.URL) }},
		{"secret", false, readSecret},
		{"headers", false, readHeaders},
	},
	Incident: {
		{"routing_key", true, func(c *Config, v jsontext.Value) error { return readText(v, &c.RoutingKey) }},
		{"url", false, func(c *Config, v jsontext.Value) error { return readURL(v, &c.URL) }},
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
			if err := s.read(&config, value); err != nil {
				path := []any{s.name}
				if part, is := errors.AsType[partError](err); is {
					path = append(path, part.part)
				}
				faults = append(faults, fault(err, path...))
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
