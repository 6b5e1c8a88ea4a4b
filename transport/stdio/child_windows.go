package stdio

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"unsafe"
)

// usualVars are the variables that every server sees: those that programs do
// not work without, and none that is likely to hold a secret.
var usualVars = []string{
	"APPDATA", "COMSPEC", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATH", "PATHEXT", "PROCESSOR_ARCHITECTURE",
	"PROGRAMDATA", "PROGRAMFILES", "PROGRAMFILES(X86)", "SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "TMP", "USERNAME", "USERPROFILE", "WINDIR",
}

// foldNames says that the case of variable names does not matter.
const foldNames = true

// checkArgs refuses what the command processor would interpret, because Windows
// runs batch files by handing it their command line.
func checkArgs(file string, args []string) error {
	switch strings.ToLower(filepath.Ext(file)) {
	case ".bat", ".cmd":
	default:
		return nil
	}
	for _, arg := range args {
		if i := strings.IndexAny(arg, "\"%&|<>^!\r\n"); i >= 0 {
			return fmt.Errorf("%s is a batch file, and to the command processor %q in an argument has a meaning of its own", file, arg[i])
		}
	}
	return nil
}

// newProcAttr returns how a server is started: in a group of its own, so that a
// break meant for us does not reach it, and without a window.
func newProcAttr(who string) (*syscall.SysProcAttr, []string, error) {
	const noWindow = 0x08000000 // CREATE_NO_WINDOW
	if who != "" {
		return nil, nil, errors.New("the user cannot be changed on Windows")
	}
	return &syscall.SysProcAttr{HideWindow: true, CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP | noWindow}, nil, nil
}

func signalOf(*os.ProcessState) string { return "" }

// awaitExit reports that there is no need to wait without reaping: a job knows
// its members without their numbers.
func awaitExit(int) bool { return false }

// A processGroup is a job object: a server's process and all that it starts. The
// system ends them when the last handle of the job closes, so also when we are
// killed. What the process starts before it is put into the job escapes.
type processGroup struct{ job syscall.Handle }

func newProcessGroup(string) *processGroup { return &processGroup{} }

// setServer does nothing: the process that is started is the server.
func (*processGroup) setServer(int) {}

// setProcess is told the process once it has started.
func (g *processGroup) setProcess(p *os.Process) error {
	var err error
	if g.job, err = newJob(); err != nil {
		return err
	}
	handleErr := p.WithHandle(func(process uintptr) {
		if ok, _, callErr := kernel("AssignProcessToJobObject").Call(uintptr(g.job), process); ok == 0 {
			err = fmt.Errorf("put the process into its job: %w", callErr)
		}
	})
	return errors.Join(handleErr, err)
}

// release is told that nothing is left.
func (g *processGroup) release() {
	if g.job != 0 {
		_ = syscall.CloseHandle(g.job)
		g.job = 0
	}
}

// terminate does nothing: a process without a console cannot be asked, other than by
// closing its stdin.
func (g *processGroup) terminate() {}

// kill ends all processes of the job.
func (g *processGroup) kill() {
	if g.job != 0 {
		_, _, _ = kernel("TerminateJobObject").Call(uintptr(g.job), 1)
	}
}

// alive reports whether anybody in the job lives.
func (g *processGroup) alive() bool {
	// JOBOBJECT_BASIC_ACCOUNTING_INFORMATION
	var info struct {
		userTime, kernelTime, periodUserTime, periodKernelTime int64

		pageFaults, processes, active, terminated uint32
	}
	const accounting = 1 // JobObjectBasicAccountingInformation
	if g.job == 0 {
		return false
	}
	ok, _, _ := kernel("QueryInformationJobObject").Call(uintptr(g.job), accounting, uintptr(unsafe.Pointer(&info)), unsafe.Sizeof(info), 0)
	return ok != 0 && info.active > 0
}

// newJob returns a job whose processes end when its handle closes.
func newJob() (syscall.Handle, error) {
	const (
		extendedLimit  = 9      // JobObjectExtendedLimitInformation
		killOnJobClose = 0x2000 // JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE
	)
	// JOBOBJECT_EXTENDED_LIMIT_INFORMATION, with the basic one at its start.
	var info struct {
		processTime, jobTime       int64
		flags                      uint32
		minWorkingSet, maxWorkSet  uintptr
		activeProcesses            uint32
		affinity                   uintptr
		priorityClass, scheduling  uint32
		io                         [6]uint64
		processMemory, jobMemory   uintptr
		peakProcessMem, peakJobMem uintptr
	}
	info.flags = killOnJobClose
	job, _, err := kernel("CreateJobObjectW").Call(0, 0)
	if job == 0 {
		return 0, fmt.Errorf("create a job: %w", err)
	}
	ok, _, err := kernel("SetInformationJobObject").Call(job, extendedLimit, uintptr(unsafe.Pointer(&info)), unsafe.Sizeof(info))
	if ok == 0 {
		_ = syscall.CloseHandle(syscall.Handle(job))
		return 0, fmt.Errorf("set up a job: %w", err)
	}
	return syscall.Handle(job), nil
}

func kernel(function string) *syscall.LazyProc {
	return syscall.NewLazyDLL("kernel32.dll").NewProc(function)
}
