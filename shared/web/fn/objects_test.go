package fn_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"millrace/shared/web/fn"
)

func TestObjectTriggerMatches(t *testing.T) {
	t.Parallel()
	created := []fn.ObjectEvent{fn.ObjectCreated}
	both := []fn.ObjectEvent{fn.ObjectRemoved, fn.ObjectCreated}
	for _, c := range []struct {
		trigger    fn.ObjectTrigger
		event, key string
		want       bool
	}{
		{fn.ObjectTrigger{}, "ObjectCreated:Put", "k", false},
		{fn.ObjectTrigger{Events: created}, "ObjectCreated:Put", "k", true},
		{fn.ObjectTrigger{Events: created}, "ObjectCreated:CompleteMultipartUpload", "k", true},
		{fn.ObjectTrigger{Events: created}, "ObjectRemoved:Delete", "k", false},
		{fn.ObjectTrigger{Events: created}, "ObjectTagging:Put", "k", false},
		{fn.ObjectTrigger{Events: both}, "ObjectRemoved:DeleteMarkerCreated", "k", true},
		{fn.ObjectTrigger{Events: both, Prefix: "a/", Suffix: ".csv"}, "ObjectCreated:Copy", "a/b.csv", true},
		{fn.ObjectTrigger{Events: both, Prefix: "a/", Suffix: ".csv"}, "ObjectCreated:Copy", "b/a/b.csv", false},
		{fn.ObjectTrigger{Events: both, Prefix: "a/", Suffix: ".csv"}, "ObjectCreated:Copy", "a/b.csv.gz", false},
	} {
		assert.Equal(t, c.want, c.trigger.Matches(c.event, c.key), "%+v", c)
	}
}

func TestObjectTriggerCheck(t *testing.T) {
	t.Parallel()
	for _, good := range []fn.ObjectTrigger{
		{},
		{Events: []fn.ObjectEvent{fn.ObjectCreated, fn.ObjectRemoved}, Prefix: "org_1/uploads/", Suffix: ".csv"},
	} {
		assert.NoError(t, good.Check())
	}
	for want, bad := range map[string]fn.ObjectTrigger{
		`unknown event "s3:TestEvent"`:       {Events: []fn.ObjectEvent{"s3:TestEvent"}},
		"users' buckets have filters":        {Events: []fn.ObjectEvent{fn.ObjectCreated}, Users: true, Suffix: ".csv"},
		"duplicate event s3:ObjectCreated:*": {Events: []fn.ObjectEvent{fn.ObjectCreated, fn.ObjectRemoved, fn.ObjectCreated}},
		`no event for the keys "a/" to ""`:   {Prefix: "a/"},
		`"a b" has characters`:               {Events: []fn.ObjectEvent{fn.ObjectCreated}, Suffix: "a b"},
		`"a*" has characters`:                {Events: []fn.ObjectEvent{fn.ObjectCreated}, Prefix: "a*"},
	} {
		assert.ErrorContains(t, bad.Check(), want)
	}
}
