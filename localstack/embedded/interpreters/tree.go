//go:build unix

package interpreters

// process is one process of an interpreter's tree.
type process struct {
	pid, parent, uid int
	memory           int64 // bytes: anonymous, shared without a file, swapped out
}

// descendants returns, of all processes of the machine, the root and its
// descendants, and all processes of a user, if one is given.
func descendants(all []process, root int, uid *int) []process {
	children := make(map[int][]process)
	var own []process
	for _, p := range all {
		if p.pid == root || uid != nil && p.uid == *uid {
			own = append(own, p)
		} else {
			children[p.parent] = append(children[p.parent], p)
		}
	}
	for i := 0; i < len(own); i++ {
		own = append(own, children[own[i].pid]...)
		delete(children, own[i].pid)
	}
	return own
}
