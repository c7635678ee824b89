package fn

import (
	"fmt"
	"slices"
	"strings"
)

// ObjectTrigger chooses events of the artifact bucket: what happened, and to
// which objects. The zero value chooses none.
type ObjectTrigger struct {
	Events []ObjectEvent
	Prefix string // of keys, which begin with the workspace's id; "": any
	Suffix string // of keys; "": any
}

// ObjectEvent is something that happens to objects, as S3 names it for the
// notifications of a bucket.
type ObjectEvent string

// The object events. In a bucket with versions, a delete marker removes too.
const (
	ObjectCreated ObjectEvent = "s3:ObjectCreated:*"
	ObjectRemoved ObjectEvent = "s3:ObjectRemoved:*"
)

// Matches reports whether the trigger chooses an event, named as S3's messages
// name it ("ObjectCreated:Put"), of an object.
func (o ObjectTrigger) Matches(event, key string) bool {
	return strings.HasPrefix(key, o.Prefix) && strings.HasSuffix(key, o.Suffix) &&
		slices.ContainsFunc(o.Events, func(e ObjectEvent) bool {
			return strings.HasPrefix("s3:"+event, strings.TrimSuffix(string(e), "*"))
		})
}

// plain reports whether S3 takes a filter as it is. It wants other characters
// encoded, in a way that its manual leaves open.
func plain(filter string) bool {
	return !strings.ContainsFunc(filter, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("/._-", r)
	})
}

// Check returns an error that names what S3 would refuse: it takes each event
// once, and those alone that it knows.
func (o ObjectTrigger) Check() error {
	for i, e := range o.Events {
		if e != ObjectCreated && e != ObjectRemoved {
			return fmt.Errorf("object trigger: there is no event %q", e)
		}
		if slices.Contains(o.Events[:i], e) {
			return fmt.Errorf("object trigger: %s is there twice", e)
		}
	}
	if len(o.Events) == 0 && o.Prefix+o.Suffix != "" {
		return fmt.Errorf("object trigger: no event of the keys %q to %q", o.Prefix, o.Suffix)
	}
	for _, text := range []string{o.Prefix, o.Suffix} {
		if !plain(text) {
			return fmt.Errorf("object trigger: %q has characters other than letters, digits and /._-", text)
		}
	}
	return nil
}
