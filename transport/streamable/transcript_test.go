package streamable_test

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "rewrite the transcripts in testdata")

// TestTranscripts replays what clients of each revision send, and compares what
// comes back with what is written down.
//
// A transcript has a section for each step, under a line "-- title --". Lines
// with ">" are the request, those with "<" what came back. Lines with "*" say
// what the client does with the stream that it got:
//
//   - keep as A        leave it open
//   - read 2 of A      take the next two events
//   - read rest of A   take all until its end
//   - close A          drop the connection
//   - show 300 bytes   of a body that is too long to show whole
//
// A response that is not kept is read to its end. Requests carry Accept with
// both types and, if they have a body, Content-Type, unless they say otherwise.
// Comments in streams are left out.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/transcripts/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no transcripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			p := &player{site: open(t, nil), streams: map[string]*reply{}, count: map[string]int{}}
			head, sections := parseTranscript(string(text))
			for _, s := range sections {
				got := p.play(s)
				if want := strings.Join(s.want, "\n"); got != want && !*update {
					t.Errorf("%s: %s\ngot\n%s\nwant\n%s", file, s.title, got, want)
				}
				head += strings.TrimSuffix(s.text()+got, "\n") + "\n\n"
			}
			if *update {
				if err := os.WriteFile(file, []byte(strings.TrimSuffix(head, "\n")), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// A section is one step of a transcript. The lines of send and stage have lost
// their marks, those of want have not.
type section struct {
	title                    string
	prose, send, stage, want []string
}

var sectionTitle = regexp.MustCompile(`^-- (.+) --$`)

// parseTranscript splits a transcript into what comes before the first section,
// and the sections.
func parseTranscript(text string) (head string, sections []*section) {
	var s *section
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		if m := sectionTitle.FindStringSubmatch(line); m != nil {
			s = &section{title: m[1]}
			sections = append(sections, s)
			continue
		}
		switch {
		case s == nil:
			head += line + "\n"
		case strings.HasPrefix(line, ">"):
			s.send = append(s.send, strings.TrimPrefix(line[1:], " "))
		case strings.HasPrefix(line, "* "):
			s.stage = append(s.stage, line[2:])
		case strings.HasPrefix(line, "<"):
			s.want = append(s.want, line)
		case line != "":
			s.prose = append(s.prose, line)
		}
	}
	return head, sections
}

// text returns the section without what came back.
func (s *section) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "-- %s --\n", s.title)
	for _, line := range s.prose {
		b.WriteString(line + "\n")
	}
	for _, line := range s.send {
		b.WriteString(strings.TrimRight("> "+line, " ") + "\n")
	}
	for _, line := range s.stage {
		b.WriteString("* " + line + "\n")
	}
	return b.String()
}

// A player is the client of a transcript.
type player struct {
	site    *site
	streams map[string]*reply
	masks   []string       // pairs of a value that differs in every run and what stands for it
	count   map[string]int // of what stands for such values, by kind
}

// A reply is a response that is being read.
type reply struct {
	resp  *http.Response
	lines *bufio.Reader
	drop  context.CancelFunc
}

// play does one step, and returns what came back.
func (p *player) play(s *section) string {
	p.site.t.Helper()
	var out []string
	var now *reply // until it is kept
	if len(s.send) > 0 {
		now = p.send(s.send)
		out = responseHead(now.resp)
	}
	stream := func(name string) *reply {
		if p.streams[name] == nil {
			p.site.t.Fatalf("%s: no stream is kept as %s", s.title, name)
		}
		return p.streams[name]
	}
	shown := -1
	for _, direction := range s.stage {
		var name string
		var n int
		switch {
		case scan(direction, "keep as %s", &name):
			p.streams[name], now = now, nil
		case scan(direction, "read %d of %s", &n, &name):
			for range n {
				out = p.event(out, stream(name), true)
			}
		case scan(direction, "read rest of %s", &name):
			out = p.rest(out, stream(name))
		case scan(direction, "close %s", &name):
			stream(name).drop()
		case scan(direction, "show %d bytes", &shown):
		default:
			p.site.t.Fatalf("%s: no such direction: %s", s.title, direction)
		}
	}
	if now != nil {
		out = p.body(out, now, shown)
	}
	for i, line := range out {
		out[i] = strings.TrimRight("< "+p.mask(line), " ")
	}
	return strings.Join(out, "\n")
}

func scan(text, format string, args ...any) bool {
	n, err := fmt.Sscanf(text, format, args...)
	return err == nil && n == len(args)
}

// send sends a request: a line with method and path, headers, and after an empty
// line the body.
func (p *player) send(lines []string) *reply {
	p.site.t.Helper()
	head, body, _ := strings.Cut(p.unmask(strings.Join(lines, "\n")), "\n\n")
	fields := strings.Split(head, "\n")
	method, path, _ := strings.Cut(fields[0], " ")
	var headers []string
	for _, field := range fields[1:] {
		name, value, _ := strings.Cut(field, ": ")
		headers = append(headers, name, value)
	}
	c := p.site.with(headers...)
	c.url += path
	ctx, drop := context.WithTimeout(c.t.Context(), 30*time.Second) // for what should have come
	c.t.Cleanup(drop)
	resp := c.do(ctx, method, body)
	return &reply{resp: resp, lines: bufio.NewReader(resp.Body), drop: drop}
}

// responseHead returns the status, and the headers that matter.
func responseHead(resp *http.Response) []string {
	out := []string{resp.Status}
	for _, name := range []string{"Allow", "Content-Type", "Mcp-Session-Id"} {
		for _, value := range resp.Header.Values(name) {
			out = append(out, name+": "+value)
		}
	}
	return out
}

// body adds a whole body, or the beginning of it.
func (p *player) body(out []string, h *reply, shown int) []string {
	p.site.t.Helper()
	if h.resp.Header.Get("Content-Type") == "text/event-stream" {
		return p.rest(out, h)
	}
	b, err := io.ReadAll(h.lines)
	if err != nil {
		p.site.t.Fatal(err)
	}
	text := string(b)
	if shown >= 0 && shown < len(text) {
		text = text[:shown] + " ..."
	}
	if text == "" {
		return out
	}
	return appendBlock(out, strings.Split(text, "\n")...)
}

// appendBlock adds lines, behind an empty one if others are before them.
func appendBlock(out []string, lines ...string) []string {
	if len(out) > 0 {
		out = append(out, "")
	}
	return append(out, lines...)
}

// rest adds the events until the end of a stream, and the end.
func (p *player) rest(out []string, h *reply) []string {
	p.site.t.Helper()
	for n := -1; n != len(out); {
		n = len(out)
		out = p.event(out, h, false)
	}
	return appendBlock(out, "(end of stream)")
}

// event adds the next event, line by line. At the end of the stream there is
// none, which is a fault if one must come.
func (p *player) event(out []string, h *reply, must bool) []string {
	p.site.t.Helper()
	var lines []string
	for {
		line, err := h.lines.ReadString('\n')
		switch line = strings.TrimRight(line, "\r\n"); {
		case err == io.EOF && !must && line == "" && lines == nil:
			return out
		case err != nil:
			p.site.t.Fatalf("the stream ends with %v behind %q", err, append(lines, line))
		case line == "" && lines != nil:
			return appendBlock(out, lines...)
		case line != "" && line[0] != ':':
			lines = append(lines, line)
		}
	}
}

// volatile are the places of values that differ in every run.
var volatile = []struct {
	kind  string
	value *regexp.Regexp
}{
	{"session", regexp.MustCompile(`^Mcp-Session-Id: (\S+)`)},
	{"question", regexp.MustCompile(`"id":(\d{10}),"method"`)},
	{"state", regexp.MustCompile(`"requestState":"([^"]+)"`)},
}

// mask puts names in the place of values that differ in every run.
func (p *player) mask(line string) string {
	for _, v := range volatile {
		m := v.value.FindStringSubmatch(line)
		if len(m) < 2 || slices.Contains(p.masks, m[1]) {
			continue
		}
		p.count[v.kind]++
		p.masks = append(p.masks, m[1], fmt.Sprintf("<%s-%d>", v.kind, p.count[v.kind]))
	}
	return strings.NewReplacer(p.masks...).Replace(line)
}

// unmask puts the values back.
func (p *player) unmask(text string) string {
	for i := 0; i < len(p.masks); i += 2 {
		text = strings.ReplaceAll(text, p.masks[i+1], p.masks[i])
	}
	return text
}
