package stdio

import (
	"os"
	"slices"
)

// A Process is a server that was started and is not spoken to: whoever started it
// reads and writes its standard streams.
type Process struct{ child *child }

// Start starts the server and leaves the conversation to the caller, who reads all
// that it writes and calls Stop.
func (c *Command) Start() (*Process, error) {
	p, err := c.start()
	if err != nil {
		return nil, err
	}
	return &Process{p}, nil
}

// Read reads what the server writes to its standard output. The end is the [ExitError] of a
// server that has ended.
func (p *Process) Read(b []byte) (int, error) { return childOut{p.child}.Read(b) }

// Write writes to the server's standard input.
func (p *Process) Write(b []byte) (int, error) { return childIn{p.child}.Write(b) }

// Stop ends the server as closing a conversation does, and says how it ended.
func (p *Process) Stop() *ExitError {
	p.child.stop()
	return p.child.exit()
}

// Stderr returns the last 64 KiB of what the server wrote to its standard error.
func (p *Process) Stderr() []byte { return p.child.stderrTail() }

// File returns the executable that was found.
func (p *Process) File() string { return p.child.file }

// Withheld returns the names of the variables of our environment that the server does not see.
func (p *Process) Withheld() (names []string) {
	for _, entry := range os.Environ() {
		name, _, ok := cutVariable(entry)
		if ok && !slices.ContainsFunc(p.child.env, func(theirs string) bool {
			n, _, _ := cutVariable(theirs)
			return sameName(n, name)
		}) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
