package proc

import (
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
)

// childAttributes start a program in its own console process group, so that
// CTRL_BREAK reaches only it.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP}
}

// daemonAttributes start a program without a console, so that it outlives its
// parent's.
func daemonAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP | windows.DETACHED_PROCESS}
}

// tree is a process and its descendants: here a job object, which ends its
// processes when the last handle to it is closed, and therefore also when this
// process ends. 0 means none. Processes started before the program is in the
// job are not part of it.
type tree windows.Handle

// newTree puts a process into a new job. If that fails, [tree.kill] kills only
// the process.
func newTree(p *os.Process) tree {
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return 0
	}
	var limits windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION
	limits.BasicLimitInformation.LimitFlags = windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE
	_, err = windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&limits)), uint32(unsafe.Sizeof(limits)))
	if err == nil {
		handleErr := p.WithHandle(func(handle uintptr) {
			err = windows.AssignProcessToJobObject(job, windows.Handle(handle))
		})
		if handleErr != nil {
			err = handleErr
		}
	}
	if err != nil {
		_ = windows.CloseHandle(job)
		return 0
	}
	return tree(job)
}

// kill kills all processes of the job.
func (t tree) kill(p *os.Process) {
	if t == 0 || windows.TerminateJobObject(windows.Handle(t), 1) != nil {
		_ = p.Kill() // it may have ended
	}
}

// close gives the job up.
func (t tree) close() {
	if t != 0 {
		_ = windows.CloseHandle(windows.Handle(t))
	}
}

// terminate tells a child to end. Windows has no SIGTERM: a program of this
// process's console gets CTRL_BREAK, which a Go program receives as os.Interrupt.
// Without a console nothing can be told, and the child is killed.
func terminate(p *os.Process) error {
	if windows.GenerateConsoleCtrlEvent(windows.CTRL_BREAK_EVENT, uint32(p.Pid)) == nil {
		return nil
	}
	return p.Kill()
}

// terminateDaemon kills a background program, which has no console for a
// signal.
func terminateDaemon(p *os.Process) error { return p.Kill() }
