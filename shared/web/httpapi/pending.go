package httpapi

import (
	"net/http"
	"reflect"
)

// Pending is a response that is a T, with the operation's status, or 202 with a
// W that tells the client to ask again.
type Pending[T, W any] struct {
	done T
	wait *W
}

// Done returns the response with a T.
func Done[W, T any](v T) Pending[T, W] { return Pending[T, W]{done: v} }

// AskAgain returns the response with 202.
func AskAgain[T, W any](v W) Pending[T, W] { return Pending[T, W]{wait: &v} }

// pending is a Pending of any types.
type pending interface {
	bodies() (done, wait reflect.Type)
}

func (Pending[T, W]) bodies() (done, wait reflect.Type) {
	return reflect.TypeFor[T](), reflect.TypeFor[W]()
}

func (p Pending[T, W]) respond(w http.ResponseWriter, _ *http.Request, status int) error {
	var out any = p.done
	if p.wait != nil {
		status, out = http.StatusAccepted, *p.wait
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	return writeAnswer(w, out)
}
