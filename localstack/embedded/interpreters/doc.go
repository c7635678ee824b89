// Package interpreters runs Python tasks in child processes of the embedded
// server: a warm interpreter for each (workspace, artifact, tier), which starts
// in about 40 ms and answers a warm call in about 100 µs.
//
// Every child has a clean environment, its own scratch directory, no
// descriptors but the standard ones and the two of the protocol, its own
// process group, a lower priority than the server (nice), and limits on files,
// file size and core dumps. It dies with the server (PR_SET_PDEATHSIG) and
// cannot gain privileges (PR_SET_NO_NEW_PRIVS). A seccomp filter denies it
// mounts, namespaces, ptrace, keys, BPF and the like, and memory that belongs
// to no process. Further isolation depends on the server's privileges. The
// first mode that works is used; [Pool.Mode] and [Pool.Isolation] report it,
// and the server logs it at its start. With Config.Isolated the plain modes are
// excluded:
//
//   - namespaces, server is root: the child has its own user (Config.FirstUID and
//     up) and its own mount, PID and IPC namespaces. It sees only its own
//     processes and an empty data directory and home. Everything is read-only
//     except its scratch directory, which is also its /tmp and /var/tmp, and a
//     small /dev/shm of its own; /dev has the harmless devices. All processes it
//     started end with it, even after setsid.
//   - namespaces, server is not root: the same in a user namespace without any
//     capability. The child keeps the server's user, so files of that user
//     outside the data directory and the home stay readable.
//   - plain, server is root: the child has its own user and shares everything
//     else. It can read files that everybody may read, including another
//     workspace's artifact if it knows the names; it can see other children's
//     processes, but not signal them. Processes it started are killed with it, by
//     their user; what it writes to /tmp or /dev/shm stays there, unbounded and
//     visible to all.
//   - plain, server is not root: the same, but the child runs as the server's
//     user: it can read and write what that user can, including the data
//     directory, and with credentials.json act as any user; a process that calls
//     setsid outlives its task. Only suitable for trusted code.
//
// With [HostNetwork] a child has the machine's network, including abstract
// sockets of other tasks. With [NoNetwork] it has an empty network namespace,
// and the plain modes are excluded. In both cases the server fetches its large
// inputs and stores its large output, and the child gets no link to them.
//
// An interpreter and all processes it starts may hold at most the memory of its
// tier, maxProcesses processes, and Config.Scratch bytes of files. If they
// exceed a limit they are killed, and the task fails with a message that tells
// the usage. Memory is what is resident or swapped out, not address space, of
// which numeric libraries reserve plenty. If the server may divide its own
// cgroup v2, the kernel enforces the memory limit. Otherwise, and always for
// files, the server measures the processes every 10 to 200 ms while they have a
// task, so a task may exceed a limit for that long. Not measured are unnamed
// files in messages between sockets and, if the server is not root, mapped
// ones; /dev/shm adds a quarter of the tier's memory if no cgroup counts it. In
// the plain mode of a server that is not root, only the largest process counts
// once the sum exceeds the limit, because the kernel does not tell what they
// share. On systems other than Linux, ps is used.
//
// A task shares its process with the runner, so it can write to the protocol's
// descriptor. Each request carries a nonce that the answer must repeat. A task
// can find the nonce of its own attempt and answer for it early, wrongly or
// with an output that is not JSON, which makes it fail; it cannot answer for
// another attempt, whose nonce does not exist yet. An interpreter that writes
// after its answer, or still answers an earlier request, is replaced, and it is
// stopped (SIGSTOP) while it has no task. The remaining risk is inherent in
// sharing a warm interpreter: code that an attempt leaves in its modules, or in
// the runner's, can read and change later attempts of the same artifact in the
// same workspace and tier that run in the same interpreter, but never those of
// another artifact or workspace.
//
// The interpreter runs with -I -S -B: no PYTHON* variables, no user directory, no
// site-packages, no bytecode written. Without site a start takes a third of the
// time, and a task sees the same as in the cloud: the standard library and its
// own artifact, not what happens to be installed on this machine. Only where
// Config.Python is of a virtual environment, its packages stand at the end of
// sys.path, and it is visible, read-only, in a hidden home as well. Its .pth files
// are not read.
//
// On Windows every task fails with a message that says so.
package interpreters
