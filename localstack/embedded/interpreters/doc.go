// Package interpreters runs Python tasks in child processes of the embedded
// server: a warm interpreter for each (workspace, artifact, tier), started in
// about 40 ms, answering a warm call in about 100 µs.
//
// Every child has a clean environment, its own scratch directory, no descriptor
// but its standard ones and the two of the protocol, its own process group, and
// limits on memory, files, file size and core dumps. It dies with the server
// (PR_SET_PDEATHSIG) and may gain no privilege (PR_SET_NO_NEW_PRIVS). It has the
// network of the machine. How far it is shut off beyond that depends on what the
// server may do; the first mode that works is taken, [Pool.Mode] tells which, and
// the server logs it at its start. With Config.Isolated no plain mode is taken:
//
//   - namespaces, server is root: user nobody; its own mount, PID and IPC
//     namespaces. It sees no process but its own, an empty data directory and
//     home, a /tmp of its own, its artifact read-only. All it started ends with
//     it, even after setsid.
//   - namespaces, server is not root: the same in a user namespace, without any
//     capability. It keeps the server's user, so files of that user outside the
//     data directory and the home stay readable.
//   - plain, server is root: user nobody, all else shared. Files that everybody
//     may read are readable, another workspace's artifact among them if its
//     names are known; children of the same user cannot read each other's
//     memory (PR_SET_DUMPABLE 0), but what they start can be seen. A process
//     that calls setsid outlives its task, and what a task started outlives a
//     server that is killed.
//   - plain, server is not root: as before, and the child runs as the server's
//     user: it may read and write what that user may, the data directory
//     included, and with credentials.json be any user. Fit for one's own code
//     only.
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
// own artifact, not what happens to be installed on this machine.
//
// On Windows every task fails with a message that says so.
package interpreters
