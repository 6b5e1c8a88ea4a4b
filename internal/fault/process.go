package fault

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
)

// A Process is what whoami returns, as JSON in its text.
type Process struct {
	PID, PPID int
	Group     int // the process group; 0 if that is not known
	Args      []string
	Env       []string
	Dir       string
	Umask     string   // in octal; "" if that is not known
	Files     []string // open files beside standard input, output and error
}

func whoami(_ context.Context, c *call) (any, error) {
	p := Process{PID: os.Getpid(), PPID: os.Getppid(), Args: os.Args, Env: os.Environ()}
	p.Dir, _ = os.Getwd()
	// The rest is known on Linux only.
	if status, err := os.ReadFile("/proc/self/status"); err == nil {
		for line := range strings.Lines(string(status)) {
			if mask, ok := strings.CutPrefix(line, "Umask:"); ok {
				p.Umask = strings.TrimSpace(mask)
			}
		}
	}
	if stat, err := os.ReadFile("/proc/self/stat"); err == nil {
		// The name of the program stands in brackets and may hold anything.
		_, rest, _ := strings.Cut(string(stat), ") ")
		if fields := strings.Fields(rest); len(fields) > 2 {
			p.Group, _ = strconv.Atoi(fields[2])
		}
	}
	p.Files = inherited
	text, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	return c.result(string(text), false), nil
}

// openFiles returns the open files beside the three standard ones. The one that
// reads the directory is gone when it has been read.
func openFiles() (files []string) {
	list, _ := os.ReadDir("/proc/self/fd")
	for _, f := range list {
		to, err := os.Readlink("/proc/self/fd/" + f.Name())
		// What the runtime itself opens is no inheritance.
		runtime := strings.HasPrefix(to, "anon_inode:") || strings.HasPrefix(to, "/sys/fs/cgroup/")
		if n, _ := strconv.Atoi(f.Name()); n > 2 && err == nil && !runtime {
			files = append(files, f.Name()+" "+to)
		}
	}
	return files
}

func grandchild(_ context.Context, c *call) (any, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	// It ends when it is killed: it is not waited for, and it holds our standard
	// output open.
	cmd := exec.CommandContext(context.WithoutCancel(context.Background()), self)
	cmd.Env = append(os.Environ(), modeVariable+"="+sleeper)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("fault: the grandchild: %w", err)
	}
	number := strconv.Itoa(cmd.Process.Pid)
	c.journal.Write(Descended, number)
	return c.result(number, false), nil
}
