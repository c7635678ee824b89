package pebblequeue

// fifo is a first-in-first-out list in a ring of slots.
type fifo[T any] struct {
	slots []T
	head  int
	n     int
}

// keepSlots is how large a ring stays when it has run empty.
const keepSlots = 1024

func (f *fifo[T]) push(v T) {
	if f.n == len(f.slots) {
		grown := make([]T, max(8, 2*f.n))
		copied := copy(grown, f.slots[f.head:])
		copy(grown[copied:], f.slots[:f.head])
		f.slots, f.head = grown, 0
	}
	f.slots[(f.head+f.n)%len(f.slots)] = v
	f.n++
}

// pop removes the first; only of a list that is not empty.
func (f *fifo[T]) pop() T {
	var zero T
	v := f.slots[f.head]
	f.slots[f.head] = zero
	f.head = (f.head + 1) % len(f.slots)
	f.n--
	if f.n == 0 && len(f.slots) > keepSlots {
		f.slots, f.head = nil, 0
	}
	return v
}

// at returns the i-th, from 0; only of a list that has it.
func (f *fifo[T]) at(i int) T { return f.slots[(f.head+i)%len(f.slots)] }

// remove removes the i-th, from 0, in a time that grows with i.
func (f *fifo[T]) remove(i int) T {
	v := f.at(i)
	for ; i > 0; i-- {
		f.slots[(f.head+i)%len(f.slots)] = f.at(i - 1)
	}
	f.pop()
	return v
}

// first returns the first; only of a list that is not empty.
func (f *fifo[T]) first() T { return f.slots[f.head] }

// all calls yield for each, first to last.
func (f *fifo[T]) all(yield func(T) bool) {
	for i := range f.n {
		if !yield(f.slots[(f.head+i)%len(f.slots)]) {
			return
		}
	}
}
