package fn

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ObjectTrigger selects events of a bucket by kind and object key. The zero
// value selects none.
type ObjectTrigger struct {
	Events []ObjectEvent
	// Users selects events of users' buckets instead of those of the artifact
	// bucket. On AWS, users configure their buckets to notify the queue.
	Users  bool
	Prefix string // of keys, which begin with the workspace's id; "" means any
	Suffix string // of keys; "" means any
}

// ObjectEvent is a kind of event of a bucket, as S3's notification settings
// name it.
type ObjectEvent string

// The object events. In a versioned bucket, a delete marker counts as a
// removal.
const (
	ObjectCreated ObjectEvent = "s3:ObjectCreated:*"
	ObjectRemoved ObjectEvent = "s3:ObjectRemoved:*"
)

// Matches reports whether the trigger selects an event of an object. event is
// named as in S3's messages ("ObjectCreated:Put").
func (o ObjectTrigger) Matches(event, key string) bool {
	return strings.HasPrefix(key, o.Prefix) && strings.HasSuffix(key, o.Suffix) &&
		slices.ContainsFunc(o.Events, func(e ObjectEvent) bool {
			return strings.HasPrefix("s3:"+event, strings.TrimSuffix(string(e), "*"))
		})
}

// plain reports whether S3 accepts a filter without encoding. Its manual does
// not specify how to encode other characters.
func plain(filter string) bool {
	return !strings.ContainsFunc(filter, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("/._-", r)
	})
}

// Check returns an error if S3 would reject the trigger: for a duplicate or
// unknown event, or an unsupported filter.
func (o ObjectTrigger) Check() error {
	for i, e := range o.Events {
		if e != ObjectCreated && e != ObjectRemoved {
			return fmt.Errorf("object trigger: unknown event %q", e)
		}
		if slices.Contains(o.Events[:i], e) {
			return fmt.Errorf("object trigger: duplicate event %s", e)
		}
	}
	if o.Users && o.Prefix+o.Suffix != "" {
		return errors.New("object trigger: users' buckets have filters of their own")
	}
	if len(o.Events) == 0 && o.Prefix+o.Suffix != "" {
		return fmt.Errorf("object trigger: no event for the keys %q to %q", o.Prefix, o.Suffix)
	}
	for _, text := range []string{o.Prefix, o.Suffix} {
		if !plain(text) {
			return fmt.Errorf("object trigger: %q has characters other than letters, digits and /._-", text)
		}
	}
	return nil
}
