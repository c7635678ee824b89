// Package interpreters runs Python tasks in child processes of the embedded
// server: a warm interpreter for each (workspace, artifact, tier), started in
// about 40 ms, answering a warm call in about 100 µs.
//
// Every child has a clean environment, its own scratch directory, no descriptor
// but its standard ones and the two of the protocol, its own process group, a
// lower priority than the server (nice), and limits on files, file size and core
// dumps. It dies with the server
// (PR_SET_PDEATHSIG), may gain no privilege (PR_SET_NO_NEW_PRIVS), and a seccomp
// filter refuses it mounts, namespaces, ptrace, keys, BPF and the like, and memory
// that belongs to no process. How far it is shut off beyond that depends on what
// the server may do; the first mode that works is taken, [Pool.Mode] and
// [Pool.Isolation] tell which, and the server logs it at its start. With
// Config.Isolated no plain mode is taken:
//
//   - namespaces, server is root: a user of its own (Config.FirstUID and up); its
//     own mount, PID and IPC namespaces. It sees no process but its own, an empty
//     data directory and home. All is read-only to it but its scratch directory,
//     which is its /tmp and /var/tmp, and a small /dev/shm of its own; /dev has
//     the harmless devices. All it started ends with it, even after setsid.
//   - namespaces, server is not root: the same in a user namespace, without any
//     capability. It keeps the server's user, so files of that user outside the
//     data directory and the home stay readable.
//   - plain, server is root: a user of its own, all else shared. Files that
//     everybody may read are readable, another workspace's artifact among them if
//     its names are known; what children start can be seen, not signalled. What it
//     started is ended with it, by its user; what it writes to /tmp or /dev/shm
//     stays there, unbounded and for all to see.
//   - plain, server is not root: as before, and the child runs as the server's
//     user: it may read and write what that user may, the data directory
//     included, and with credentials.json be any user; a process that calls
//     setsid outlives its task. Fit for one's own code only.
//
// With [HostNetwork] it has the network of the machine, abstract sockets of other
// tasks included. With [NoNetwork] it has an empty network namespace; no plain mode
// is taken then. Either way the server fetches its large inputs and stores its
// large output, and it gets no link to them.
//
// An interpreter and all it starts hold at most the memory of its tier,
// maxProcesses processes, and Config.Scratch bytes of files. What goes over is
// killed, and the task fails with what it used. Memory is what is resident or
// swapped out, not address space, which numeric libraries take in plenty. Where the
// server may divide its own cgroup v2 the kernel bounds it. Elsewhere, and for files
// everywhere, the server looks at what the processes hold while they have a task,
// every 10 to 200 ms: a task may go over for so long. Not seen are files without a
// name in messages between sockets, and, by a server that is not root, mapped ones;
// /dev/shm adds a quarter of the tier's memory where no cgroup counts it. In the
// plain mode of a server that is not root only the largest process counts once the
// sum is too much, since the kernel does not tell what they share. Other systems than
// Linux are asked by ps.
//
// A task shares its process with the runner, so it can write to the protocol's
// descriptor. Each request carries a nonce that the answer must repeat: a task
// can find out that of its own attempt and answer for it, early, wrongly or with
// an output that is no JSON, which then fails it; it cannot answer for another
// attempt, whose nonce does not exist yet. An interpreter that writes after its
// answer, or still answers an earlier request, is replaced, and while it has no
// task it is stopped (SIGSTOP). What remains possible is what sharing a warm
// interpreter means: code that an attempt leaves in its modules, or in the
// runner's, sees and alters later attempts of the same artifact in the same
// workspace and tier, as far as they meet the same interpreter. Never of another
// artifact or workspace.
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
