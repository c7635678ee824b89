package pebblequeue

// fifo is a first-in-first-out list in a ring buffer.
type fifo[T any] struct {
	slots []T
	head  int
	n     int
}

// keepSlots is the largest size of an empty ring.
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

// pop removes the first element. The list must not be empty.
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

// at returns the i-th element, from 0, which must exist.
func (f *fifo[T]) at(i int) T { return f.slots[(f.head+i)%len(f.slots)] }

// remove removes the i-th element, from 0, in time proportional to i.
func (f *fifo[T]) remove(i int) T {
	v := f.at(i)
	for ; i > 0; i-- {
		f.slots[(f.head+i)%len(f.slots)] = f.at(i - 1)
	}
	f.pop()
	return v
}

// first returns the first element. The list must not be empty.
func (f *fifo[T]) first() T { return f.slots[f.head] }

// all calls yield for each element, first to last.
func (f *fifo[T]) all(yield func(T) bool) {
	for i := range f.n {
		if !yield(f.slots[(f.head+i)%len(f.slots)]) {
			return
		}
	}
}
