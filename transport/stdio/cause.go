package stdio

import (
	"regexp"
	"strings"
)

const (
	// causeLines is how many of the last lines of a server's stderr are looked at
	// for the one that says why it ended.
	causeLines = 60

	// maxCause is how much of that line is repeated.
	maxCause = 1024
)

var (
	// installer is what npm puts before each line.
	installer = regexp.MustCompile(`^npm (?:error|ERR!)\s*`)

	// decoration is what stands before a line without being part of what it says.
	decoration = regexp.MustCompile(`^[\s×│╰├─▶>*|-]+`)

	// Lines by what they are worth, the best first. In a line of npm its prefix is
	// left out.
	causes = []struct {
		score int
		line  *regexp.Regexp
	}{
		{0, regexp.MustCompile(`^$|A complete log of this run|^Node\.js v\d|^npm (?:warn|WARN|notice)|^Run 'docker|^For (?:more|further) information|^(?:See|Usage|hint)\b|^\d+$|^[\^~]+$|^[})\]]`)},
		{1, regexp.MustCompile(`^(?:code|syscall|errno|path|dest) |^network (?:This|In most|If)|If you are behind a proxy|^Note that you can|tarball, folder|^Traceback |^The above exception|^During handling of`)},
		{6, regexp.MustCompile(`(?i)is not in this registry|requested resource .* could not be found|failed, reason:|could not determine executable|was not found in the package registry|is not provided by package|No module named|Cannot find (?:module|package)`)},
		{5, regexp.MustCompile(`^(?:Uncaught )?[\w.$]*(?:Error|Exception|KeyboardInterrupt|SystemExit|Warning)\b(?: \[\w+\])?(?::|$)|^panic: |^(?i:error|fatal)(?:\[\w+\])?: |^docker: |^thread '.*' panicked`)},
		{4, regexp.MustCompile(`(?i)\b(?:E[A-Z]{4,}|error|fail(?:ed|ure|s)?|fatal|cannot|can't|could not|couldn't|unable|denied|not found|no such|refused|missing|required|must be set|not set|invalid|unauthorized|expired|unknown)\b`)},
	}
)

// causeOf returns the line of what a server wrote to stderr that says why it ended, as
// far as that can be told, without what could play tricks on a terminal or in a log.
// Installers and runtimes have a last line that says something else. Of lines that are
// as good the last one counts.
func causeOf(text []byte) string {
	lines := strings.Split(strings.ToValidUTF8(string(text), ""), "\n")
	lines = lines[max(0, len(lines)-causeLines):]
	best, top := "", -1
	for _, line := range lines {
		line = printable(strings.TrimRight(line, " \t\r"))
		if score := scoreOf(line); score >= top && strings.TrimSpace(line) != "" {
			best, top = line, score
		}
	}
	best = decoration.ReplaceAllString(best, "")
	return strings.ToValidUTF8(best[:min(len(best), maxCause)], "")
}

// scoreOf tells how likely a line says why a program ended.
func scoreOf(line string) int {
	rest := installer.ReplaceAllString(line, "")
	bare := decoration.ReplaceAllString(rest, "")
	for _, c := range causes {
		if !c.line.MatchString(bare) {
			continue
		}
		if c.score > 1 && c.score < 6 && rest != bare && strings.TrimLeft(rest, " \t") == bare {
			return 1 // indented: a part of a stack trace, or a piece of source
		}
		return c.score
	}
	if rest != bare {
		return 1
	}
	return 2
}

// printable returns a line without control characters.
func printable(line string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\t' || r >= 0x7f && r < 0xa0 {
			return -1
		}
		return r
	}, line)
}
