package sse

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/gateway/builtin"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
)

var update = flag.Bool("update", false, "rewrite the transcripts in testdata")

// TestTranscript replays what a client sends, and compares what comes back with
// what is written down.
//
// A transcript has a section for each step, under a line "-- title --". Lines
// with ">" are the request, those with "<" what came back, and "* read 2" takes
// the next two events of the stream that the client opened by GET. Requests with
// a body carry Content-Type. Comments in the stream are left out.
func TestTranscript(t *testing.T) {
	peertest.NoLeak(t)
	const file = "testdata/transcripts/2024-11-05.txt"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, at := serve(t, &Server{Acceptor: builtin.New(nil)})
	p := &player{web: newTestServer(t), at: at, values: make(map[string]string)}
	sections := strings.Split("\n"+string(text), "\n-- ")
	got := strings.TrimPrefix(sections[0], "\n")
	for _, section := range sections[1:] {
		played := p.play(section)
		if strings.TrimSpace(played) != strings.TrimSpace(section) && !*update {
			t.Errorf("%s: got\n-- %s\nwant\n-- %s", file, played, section)
		}
		got += "\n-- " + played
	}
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// A player is the client of a transcript.
type player struct {
	web    *testServer
	at     string
	stream *bufio.Reader     // that it opened by GET
	values map[string]string // by what stands for them
}

// volatile are the places of values that differ in every run, by what stands for
// them.
var volatile = map[string]*regexp.Regexp{
	"<session>":  regexp.MustCompile(`sessionId=(\S+)`),
	"<question>": regexp.MustCompile(`"id":(\d{10}),"method"`),
}

// play does one step, and returns its section with what came back.
func (p *player) play(section string) string {
	p.web.t.Helper()
	var recorded, send, out []string
	var events int
	for line := range strings.SplitSeq(section, "\n") {
		if line == "" || line[0] == '<' {
			continue
		}
		recorded = append(recorded, line)
		if line[0] == '>' {
			send = append(send, strings.TrimPrefix(line[1:], " "))
		}
		if line[0] == '*' {
			if _, err := fmt.Sscanf(line, "* read %d", &events); err != nil {
				p.web.t.Fatalf("no such direction: %s", line)
			}
		}
	}
	if send != nil {
		text := strings.Join(send, "\n")
		for mask, value := range p.values {
			text = strings.ReplaceAll(text, mask, value)
		}
		out = p.send(text)
	}
	for range events {
		if out != nil {
			out = append(out, "")
		}
		out = append(out, p.event()...)
	}
	for _, line := range out {
		for mask, value := range volatile {
			if m := value.FindStringSubmatch(line); m != nil {
				p.values[mask] = m[1]
				line = strings.ReplaceAll(line, m[1], mask)
			}
		}
		recorded = append(recorded, strings.TrimRight("< "+line, " "))
	}
	return strings.Join(recorded, "\n") + "\n"
}

// send sends a request: a line with method and path, headers, and after an empty
// line the body. It returns the response, without the events of a stream.
func (p *player) send(text string) []string {
	t := p.web.t
	t.Helper()
	head, body, _ := strings.Cut(text, "\n\n")
	fields := strings.Split(head, "\n")
	method, path, _ := strings.Cut(fields[0], " ")
	ctx, cancel := context.WithTimeout(t.Context(), patience) // for what should have come
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, method, p.at+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for _, field := range fields[1:] {
		name, value, _ := strings.Cut(field, ": ")
		req.Header.Set(name, value)
	}
	resp, err := p.web.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	out := []string{resp.Status}
	for _, name := range []string{"Allow", "Content-Type"} {
		if value := resp.Header.Get(name); value != "" {
			out = append(out, name+": "+value)
		}
	}
	if resp.Header.Get("Content-Type") == "text/event-stream" {
		p.stream = bufio.NewReader(resp.Body)
		return out
	}
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if len(b) > 0 {
		out = append(out, "", string(b))
	}
	return out
}

// event returns the lines of the next event.
func (p *player) event() (lines []string) {
	p.web.t.Helper()
	if p.stream == nil {
		p.web.t.Fatal("no stream is open")
	}
	for {
		line, err := p.stream.ReadString('\n')
		if err != nil {
			p.web.t.Fatalf("the stream ends with %v behind %q", err, append(lines, line))
		}
		switch line = strings.TrimRight(line, "\r\n"); {
		case line == "" && lines != nil:
			return lines
		case line != "" && line[0] != ':':
			lines = append(lines, line)
		}
	}
}
