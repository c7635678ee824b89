//go:build unix

package interpreters

// process is one of the tree that begins with an interpreter.
type process struct {
	pid, parent, uid int
	memory           int64 // bytes: anonymous, shared without a file, swapped out
}

// descendants picks out of all processes of the machine the root, all of a user,
// if there is one, and what descends from them.
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
