package sqlqueue

// dueHeap holds the messages that wait for their time (delayed or in flight),
// the one due first on top. Each knows its place, so that any can be moved or
// taken out.
type dueHeap []*message

func (h *dueHeap) push(m *message) {
	m.place = len(*h)
	*h = append(*h, m)
	h.up(m.place)
}

// remove takes out a message that is in the heap.
func (h *dueHeap) remove(m *message) {
	i, last := m.place, len(*h)-1
	if i != last {
		h.swap(i, last)
	}
	(*h)[last] = nil
	*h = (*h)[:last]
	if i != last {
		h.fix((*h)[i])
	}
	if last == 0 && cap(*h) > keepSlots {
		*h = nil
	}
}

// fix restores the order after a message's due time has changed.
func (h dueHeap) fix(m *message) {
	if i := m.place; !h.down(i) {
		h.up(i)
	}
}

func (h dueHeap) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if h[parent].due <= h[i].due {
			return
		}
		h.swap(i, parent)
		i = parent
	}
}

func (h dueHeap) down(i int) (moved bool) {
	for {
		child := 2*i + 1
		if child >= len(h) {
			return moved
		}
		if right := child + 1; right < len(h) && h[right].due < h[child].due {
			child = right
		}
		if h[i].due <= h[child].due {
			return moved
		}
		h.swap(i, child)
		i, moved = child, true
	}
}

func (h dueHeap) swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}
