package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/cli/flags"
	"github.com/spf13/cobra"
)

// shell finds what is shown to be typed into a shell.
var shell = regexp.MustCompile("(?s)```(?:sh|console)\n(.*?)```")

// TestEveryCommandShownIsUnderstood reads the command lines of the documentation, of every
// help's examples, and of README, and parses them. Which of them work is for other tests.
func TestEveryCommandShownIsUnderstood(t *testing.T) {
	n := 0
	for _, pattern := range []string{"../../*.md", "../../docs/*.md"} {
		pages, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, page := range pages {
			text, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			for _, block := range shell.FindAllStringSubmatch(string(text), -1) {
				n += understandAll(t, filepath.Base(page), strings.ReplaceAll(block[1], "\\\n", " "))
			}
		}
	}
	every(Root(), func(c *cobra.Command) { n += understandAll(t, c.CommandPath()+" --help", c.Example) })
	if n < 50 {
		t.Errorf("only %d commands are shown", n)
	}
}

// understandAll parses the commands of ours among lines, and returns how many there are.
func understandAll(t *testing.T, where, lines string) (n int) {
	t.Helper()
	for line := range strings.Lines(lines) {
		line = strings.TrimPrefix(strings.TrimSpace(line), "$ ")
		if i := strings.LastIndex(line, "| bin/dragoman "); i >= 0 {
			line = line[i+2:]
		}
		line = strings.TrimPrefix(line, "bin/")
		if !strings.HasPrefix(line, "dragoman ") {
			continue
		}
		n++
		if err := understand(shellWords(line)[1:]); err != nil {
			t.Errorf("%s: %s\n%v", where, line, err)
		}
	}
	return n
}

// understand parses a command line without running it.
func understand(args []string) error {
	c := Root()
	for _, do := range []*cobra.Command{
		flags.NewRunCommand(func(*cobra.Command, *flags.Settings) error { return nil }), flags.NewConnectCommand(func(*cobra.Command, *flags.Settings) error { return nil }),
	} {
		old, _, err := c.Find([]string{do.Name()})
		if err != nil {
			return err
		}
		c.RemoveCommand(old)
		do.GroupID = old.GroupID
		c.AddCommand(do)
	}
	found, rest, err := c.Find(args)
	if err != nil {
		return err
	}
	if found.Name() == "run" || found.Name() == "connect" {
		c.SetArgs(args)
		return c.Execute()
	}
	if err := found.ParseFlags(rest); err != nil {
		return err
	}
	return found.ValidateArgs(found.Flags().Args())
}

// shellWords splits a line as a shell does, without what follows the command.
func shellWords(line string) (list []string) {
	word, quote := "", rune(0)
	in := false
	flush := func() {
		if in {
			list = append(list, word)
		}
		word, in = "", false
	}
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word += string(r)
		case r == '\'' || r == '"':
			quote, in = r, true
		case r == '#' && !in, r == '|', r == '>', r == ';', r == '&':
			flush()
			return list
		case r == ' ' || r == '\t':
			flush()
		default:
			word, in = word+string(r), true
		}
	}
	flush()
	return list
}
