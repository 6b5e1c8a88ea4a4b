// Package hostfile imports servers from the files of MCP hosts into ours, and exports servers
// to theirs, for the commands import, export, add and remove.
//
// A file is changed one member at a time by splicing text, then read again: the change is
// refused unless the tree is the old one with that member. A change is shown before it is
// made, without secrets, and a copy of the file is kept.
package hostfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/gateway/config"
	"github.com/dragoman-mcp/dragoman/internal/gateway/config/syntax"
)

// A Change is what would become of a file.
type Change struct {
	File   string
	Before []byte // nil if there is no file
	After  []byte
}

// read begins a change of a file, which may be missing.
func read(file string) (*Change, error) {
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return &Change{File: file}, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, config.MaxFile+1))
	if err == nil && len(data) > config.MaxFile {
		err = fmt.Errorf("%s is larger than %d bytes", file, config.MaxFile)
	}
	if data == nil {
		data = []byte{}
	}
	return &Change{File: file, Before: data, After: data}, err
}

// None reports whether nothing would change.
func (c *Change) None() bool { return bytes.Equal(c.Before, c.After) }

// Diff returns the change as a unified diff, with masks where secrets are. It is for
// people: what is masked cannot be applied.
func (c *Change) Diff() (string, error) {
	before, err := syntax.Read(c.File, c.Before)
	if err != nil {
		return "", err
	}
	after, err := syntax.Read(c.File, c.After)
	if err != nil {
		return "", err
	}
	from := c.File
	if c.Before == nil {
		from = os.DevNull
	}
	return unified(syntax.Printable(from), syntax.Printable(c.File), before, after), nil
}

// Write writes the file and returns where the one before is kept, or "" if there was
// none. The file is whole at any time, and of the mode that it had. A file that has
// changed since it was read is left alone.
func (c *Change) Write() (backup string, err error) { return c.write(keep) }

// write is Write, with what keeps the file that was there.
func (c *Change) write(keep func(file string, data []byte, mode fs.FileMode) (string, error)) (backup string, err error) {
	file := c.File
	if real, err := filepath.EvalSymlinks(file); err == nil {
		file = real // the link stays one
	}
	now, err := read(file)
	if err != nil {
		return "", err
	}
	if !bytes.Equal(now.Before, c.Before) || (now.Before == nil) != (c.Before == nil) {
		return "", fmt.Errorf("%s has changed meanwhile; try again", c.File)
	}
	mode := fs.FileMode(0o600)
	if c.Before != nil {
		info, err := os.Stat(file)
		if err != nil {
			return "", err
		}
		mode = info.Mode().Perm()
		if backup, err = keep(file, c.Before, mode); err != nil {
			return "", err
		}
	} else if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil { //nolint:gosec // the host's, as it would make it
		return "", err
	}
	return backup, replace(file, c.After, mode)
}

// keep writes what a file was to a new file beside it.
func keep(file string, data []byte, mode fs.FileMode) (string, error) {
	for i := range 1000 {
		name := file + ".bak"
		if i > 0 {
			name += fmt.Sprintf(".%d", i)
		}
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		_, err = f.Write(data)
		return name, errors.Join(err, f.Close())
	}
	return "", fmt.Errorf("there are too many copies of %s; remove some", file)
}

// replace puts a file in place of another, at once.
func replace(file string, data []byte, mode fs.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+".*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // it is of no use
	}
	return err
}

// context is how many lines around a change are shown.
const context = 3

// maxTable bounds the work of finding out which lines have stayed. Beyond it, all lines
// between the first and the last change are shown.
const maxTable = 4 << 20

// unified returns the difference of two files.
func unified(from, to string, before, after *syntax.Source) string {
	a, b := before.Lines(), after.Lines()
	steps := compare(a, b)
	var out strings.Builder
	fmt.Fprintf(&out, "--- %s\n+++ %s\n", from, to)
	for i := 0; i < len(steps); {
		if steps[i].op == ' ' {
			i++
			continue
		}
		begin, end, quiet := max(i-context, 0), i, 0
		for ; end < len(steps) && quiet <= 2*context; end++ {
			if quiet++; steps[end].op != ' ' {
				quiet = 0
			}
		}
		end -= max(quiet-context, 0)
		hunk(&out, steps[begin:end], before, after)
		i = end
	}
	return out.String()
}

func hunk(out *strings.Builder, steps []step, before, after *syntax.Source) {
	var body strings.Builder
	olds, news := 0, 0
	for _, s := range steps {
		src, number := before, s.a
		if s.op == '+' {
			src, number = after, s.b
		}
		if s.op != '+' {
			olds++
		}
		if s.op != '-' {
			news++
		}
		fmt.Fprintf(&body, "%c%s\n", s.op, src.Line(number+1))
	}
	// Of no lines, the one before is named.
	fmt.Fprintf(out, "@@ -%d,%d +%d,%d @@\n%s", steps[0].a+min(olds, 1), olds, steps[0].b+min(news, 1), news, body.String())
}

// A step is a line that stayed, went or came.
type step struct {
	op   byte // ' ', '-' or '+'
	a, b int  // lines before and after, from zero
}

// compare returns how the lines of a become those of b. The last line of both is what
// follows the last line end, which is nothing as a rule.
func compare(a, b []string) (steps []step) {
	if n := len(a); n > 0 && a[n-1] == "" {
		a = a[:n-1]
	}
	if n := len(b); n > 0 && b[n-1] == "" {
		b = b[:n-1]
	}
	head := 0
	for head < min(len(a), len(b)) && a[head] == b[head] {
		steps = append(steps, step{' ', head, head})
		head++
	}
	tail := 0
	for tail < min(len(a), len(b))-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	i, j := head, head
	endA, endB := len(a)-tail, len(b)-tail
	rows, columns := endA-head, endB-head
	common := make([][]int32, 0)
	if rows*columns <= maxTable {
		common = longest(a[head:endA], b[head:endB])
	}
	for i < endA || j < endB {
		switch {
		case len(common) > 0 && i < endA && j < endB && a[i] == b[j]:
			steps = append(steps, step{' ', i, j})
			i, j = i+1, j+1
		case i < endA && (j == endB || len(common) == 0 || common[i-head+1][j-head] >= common[i-head][j-head+1]):
			steps = append(steps, step{'-', i, j})
			i++
		default:
			steps = append(steps, step{'+', i, j})
			j++
		}
	}
	for ; i < len(a); i, j = i+1, j+1 {
		steps = append(steps, step{' ', i, j})
	}
	return steps
}

// longest returns how many lines stay of each pair of ends of a and b.
func longest(a, b []string) [][]int32 {
	t := make([][]int32, len(a)+1)
	for i := range t {
		t[i] = make([]int32, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if t[i][j] = max(t[i+1][j], t[i][j+1]); a[i] == b[j] {
				t[i][j] = t[i+1][j+1] + 1
			}
		}
	}
	return t
}
