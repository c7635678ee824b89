package httpapi_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"millrace/shared/web/httpapi"
)

func TestChangeOfAField(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		given *string
		clear bool
		want  *string
	}{
		"absent":         {nil, false, new("old")},
		"null":           {nil, true, nil},
		"given":          {new("new"), false, new("new")},
		"given, emptied": {new(""), true, new("")},
	} {
		nullable, plain := new("old"), "old"
		httpapi.Change(&nullable, test.given, test.clear)
		httpapi.Set(&plain, test.given, test.clear)
		assert.Equal(t, test.want, nullable, name)
		assert.Equal(t, httpapi.Value(test.want), plain, name)
	}
}
