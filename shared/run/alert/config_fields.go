package alert

import (
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/net/http/httpguts"

	"millrace/shared/kit/mask"
	"millrace/shared/platform/mail"
)

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

func readTo(c *Config, value jsontext.Value) error {
	if err := json.Unmarshal(value, &c.To); err != nil {
		return errors.New("must be a list of addresses")
	}
	if len(c.To) == 0 || len(c.To) > mail.MaxTo {
		return fmt.Errorf("must have 1 to %d addresses", mail.MaxTo)
	}
	for i, to := range c.To {
		if a, err := mail.Address(to); err != nil || a.Address != to {
			return partError{i, errors.New("must be an address such as ann@example.com")}
		}
	}
	return nil
}

// whsec is the prefix of a webhook's secret in base64.
const whsec = "whsec_"

func readSecret(c *Config, value jsontext.Value) error {
	if err := readText(value, &c.Secret); err != nil {
		return err
	}
	if encoded, is := strings.CutPrefix(c.Secret, whsec); is {
		if key, err := base64.StdEncoding.DecodeString(encoded); err != nil || len(key) == 0 {
			return errors.New("is not base64 after " + whsec)
		}
	}
	return nil
}

// reserved are the headers of a webhook that a channel cannot set.
var reserved = []string{
	"connection", "content-encoding", "content-length", "content-type", "expect", "host", "keep-alive", "proxy-connection", "te", "trailer",
	"transfer-encoding", "upgrade", "webhook-id", "webhook-signature", "webhook-timestamp",
}

func readHeaders(c *Config, value jsontext.Value) error {
	if err := json.Unmarshal(value, &c.Headers); err != nil {
		return errors.New("must be an object of strings")
	}
	if len(c.Headers) > maxHeaders {
		return fmt.Errorf("has more than %d headers", maxHeaders)
	}
	seen := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(c.Headers)) {
		text, lower := c.Headers[name], strings.ToLower(name)
		switch {
		case !httpguts.ValidHeaderFieldName(name):
			return partError{name, errors.New("is no name of a header")}
		case slices.Contains(reserved, lower):
			return partError{name, errors.New("is a header that the service sets")}
		case seen[lower]:
			return partError{name, errors.New("is there twice: the names of headers do not distinguish case")}
		case text == mask.Stars:
			return partError{name, errors.New("is the mask of a value, not the value")}
		case len(text) > maxHeader:
			return partError{name, fmt.Errorf("has more than %d bytes", maxHeader)}
		case !httpguts.ValidHeaderFieldValue(text):
			return partError{name, errors.New("has a character that no header can have")}
		}
		seen[lower] = true
	}
	return nil
}
