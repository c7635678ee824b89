package httpapi

// Change applies a field of a change to a nullable field: a given value
// replaces it, and null clears it if clear is set.
func Change[T any](field **T, given *T, clear bool) {
	if given != nil || clear {
		*field = given
	}
}

// Set applies a field of a change to a field that is not nullable: a given
// value replaces it, and null sets its zero value if clear is set.
func Set[T any](field, given *T, clear bool) {
	switch {
	case given != nil:
		*field = *given
	case clear:
		*field = *new(T)
	}
}

// Value returns a given value, or the zero value.
func Value[T any](given *T) (v T) {
	if given != nil {
		v = *given
	}
	return v
}
