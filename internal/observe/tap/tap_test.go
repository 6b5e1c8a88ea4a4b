package tap

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
)

// splitAll splits a stream that comes in pieces.
func splitAll(stream []byte, pieces func(rest int) int) (texts []string) {
	s := newSplitter(func(text []byte) { texts = append(texts, string(text)) })
	for len(stream) > 0 {
		n := pieces(len(stream))
		s.take(stream[:n])
		stream = stream[n:]
	}
	s.end()
	return texts
}

func whole(rest int) int { return rest }

func TestMessagesAreFoundInAStream(t *testing.T) {
	for _, test := range []struct{ stream, want string }{
		{"{}\n\r\n {\"a\":1} \r\nx", `{}|{"a":1}|x`},
		{"Content-Length: 5\r\nContent-Type: x\r\n\r\n{\n}\n {}\n", "{\n}|{}"},
		{"content-length:2\n\n{}{}\n", "{}|{}"},
		{"Content-Length: many\r\n{}\n", "Content-Length: many|{}"},
		{"Content-Length: 0\r\n\r\n{}\n", "{}"},
		{"no message\n{}", "no message|{}"},
		{"", ""},
	} {
		if got := strings.Join(splitAll([]byte(test.stream), whole), "|"); got != test.want {
			t.Errorf("%q: %q, want %q", test.stream, got, test.want)
		}
	}
	long := splitAll(append(bytes.Repeat([]byte("x"), maxLine+3<<20), "\n{}\n"...), func(rest int) int { return min(rest, 1<<20) })
	if len(long) != 2 || len(long[0]) != maxText || long[1] != "{}" {
		t.Errorf("%d texts", len(long))
	}
}

func FuzzPiecesOfAStreamDoNotMatter(f *testing.F) {
	f.Add([]byte("{}\nContent-Length: 2\r\n\r\n{}x\n"), uint64(1))
	f.Fuzz(func(t *testing.T, stream []byte, seed uint64) {
		random := rand.New(rand.NewPCG(seed, 0))
		want := splitAll(stream, whole)
		got := splitAll(stream, func(rest int) int { return 1 + random.IntN(rest) })
		if !slices.Equal(got, want) {
			t.Errorf("%q in pieces is %q, whole it is %q", stream, got, want)
		}
	})
}

// seen gathers events.
type seen struct {
	mu     sync.Mutex
	events []Event
}

func (s *seen) add(e Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, e)
}

// programVariable makes the test binary one of the programs.
const programVariable = "DRAGOMAN_TAP_PROGRAM"

var programs = map[string]func(){
	"echo": func() { _, _ = io.Copy(os.Stdout, os.Stdin) },
	"fail": func() { os.Exit(7) },

	// hang writes something, and continues until it is stopped. It waits for a timer:
	// a program that waits for nothing is ended by the runtime as one that is stuck.
	"hang": func() {
		fmt.Println("x")
		<-time.After(time.Hour)
	},
}

func TestMain(m *testing.M) {
	if program, ok := programs[os.Getenv(programVariable)]; ok {
		program()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// ourselves returns the test binary as one of the programs.
func ourselves(t *testing.T, program string) *Command {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return &Command{Args: []string{self}, Env: []string{programVariable + "=" + program, "GORACE=atexit_sleep_ms=0"}}
}

func TestEveryByteIsPassedOnAsItIs(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	noise := make([]byte, 1<<20)
	for i := range noise {
		noise[i] = byte(random.Uint32())
	}
	in := slices.Concat([]byte("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\r\n\xff\n\nContent-Length: 2\r\n\r\n{}"), noise)
	var all seen
	var out bytes.Buffer
	s := NewStream(all.add)
	err := s.Relay(t.Context(), bytes.NewReader(in), &out, ourselves(t, "echo"))
	s.Close()
	if err != nil || !bytes.Equal(out.Bytes(), in) {
		t.Errorf("%d bytes of %d come back, %v", out.Len(), len(in), err)
	}
	first := all.events[0]
	if first.From != Client || first.Method != "ping" || string(first.ID) != "1" || first.Size != 40 {
		t.Errorf("the first is %+v", first)
	}
	if second := all.events[1]; second.Text != "\xff" {
		t.Errorf("the second is %+v", second)
	}
}

func TestTheStatusOfTheCommandIsTold(t *testing.T) {
	s := NewStream(func(Event) {})
	defer s.Close()
	err := s.Relay(t.Context(), strings.NewReader(""), io.Discard, ourselves(t, "fail"))
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 7 {
		t.Errorf("it ends with %v", err)
	}
	if err := s.Relay(t.Context(), strings.NewReader(""), io.Discard, &Command{Args: []string{"/no/such"}}); err == nil {
		t.Error("there is no such command")
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestACommandEndsWhenNobodyReadsIt(t *testing.T) {
	s := NewStream(func(Event) {})
	defer s.Close()
	in, hold := io.Pipe() // says nothing
	defer hold.Close()
	if err := s.Relay(t.Context(), in, broken{}, ourselves(t, "hang")); err == nil {
		t.Error("it ends well")
	}
}

func TestAnswersAreShownWithTheirRequests(t *testing.T) {
	c := newConversation()
	at := time.Date(2026, 11, 17, 1, 2, 3, 0, time.Local)
	var out bytes.Buffer
	p := &Printer{W: &out}
	say := func(from Side, text string) {
		for _, e := range c.read(at, from, []byte(text)) {
			if err := p.Show(e); err != nil {
				t.Fatal(err)
			}
		}
		at = at.Add(1500 * time.Microsecond)
	}
	say(Client, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"clientInfo":{"name":"host\u001b[2J","version":"1"}}}`)
	say(Server, `{"jsonrpc":"2.0","id":1,"result":{}}`)
	say(Client, `[{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"echo"}},{"jsonrpc":"2.0","method":"notifications/x"}]`)
	say(Server, `{"jsonrpc":"2.0","id":"a","method":"roots/list"}`)
	say(Client, `{"jsonrpc":"2.0","id":"a","error":{"code":-32601,"message":"no Bearer abcdefgh1234"}}`)
	say(Server, `{"jsonrpc":"2.0","id":"a","result":{"isError":true,"content":[]}}`)
	say(Server, `listening on {"password":"canary"}`)
	const want = `01:02:03.000  →  #1  initialize  109 B  [host�[2J]
01:02:03.001  ←  #1  initialize  1.5ms  36 B  [host�[2J]
01:02:03.003  →  #a  tools/call  echo  73 B  [host�[2J]
01:02:03.003  →  notifications/x  44 B  [host�[2J]
01:02:03.004  ←  #a  roots/list  48 B  [host�[2J]
01:02:03.006  →  #a  roots/list  1.5ms  error -32601: no Bearer [redacted]  85 B  [host�[2J]
01:02:03.007  ←  #a  tools/call  echo  4.5ms  error: the tool has failed  65 B  [host�[2J]
01:02:03.009  ←  no message: listening on {"password":"[redacted]"}  34 B  [host�[2J]
`
	if out.String() != want {
		t.Errorf("it shows\n%s", out.String())
	}
}

func TestFiltersKeepBackWhatIsNotWanted(t *testing.T) {
	req := Of(Client, peertest.Parse(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}`))
	good := AnswerTo(&req, req.Time, peertest.Parse(t, `{"jsonrpc":"2.0","id":1,"result":{}}`), nil)
	bad := AnswerTo(&req, req.Time, peertest.Parse(t, `{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"m"}}`), nil)
	lost := AnswerTo(&req, req.Time.Add(-time.Second), nil, io.EOF)
	for _, test := range []struct {
		filter Filter
		want   string
	}{
		{Filter{}, "req good bad lost"},
		{Filter{Methods: []string{"tools/*"}}, "req good bad lost"},
		{Filter{Methods: []string{"ping"}}, ""},
		{Filter{Errors: true}, "bad lost"},
		{Filter{Slow: 500 * time.Millisecond}, "lost"},
	} {
		var got []string
		for _, e := range []struct {
			name string
			e    *Event
		}{{"req", &req}, {"good", &good}, {"bad", &bad}, {"lost", &lost}} {
			if test.filter.Shows(e.e) {
				got = append(got, e.name)
			}
		}
		if strings.Join(got, " ") != test.want {
			t.Errorf("%+v shows %v, want %s", test.filter, got, test.want)
		}
	}
}

func TestSecretsAreMaskedUnlessTheRecordIsToHaveThem(t *testing.T) {
	long := strings.Repeat(`say \"x\" `, 1000)
	e := Of(Client, peertest.Parse(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"password":"canary","n":1.50,"long":"`+long+`"}}}`))
	var masked, plain, shown bytes.Buffer
	for _, err := range []error{
		(&Recorder{W: &masked}).Record(e), (&Recorder{W: &plain, Unmasked: true}).Record(e), (&Printer{W: &shown, Body: true, Color: true}).Show(e), (&Printer{W: &shown, JSON: true}).Show(e),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if strings.Contains(masked.String()+shown.String(), "canary") || !strings.Contains(plain.String(), "canary") {
		t.Errorf("masked: %.300s", masked.String())
	}
	if !strings.Contains(masked.String(), `"n":1.50`) || !strings.Contains(masked.String(), long) || strings.Count(masked.String(), "\n") != 1 {
		t.Errorf("what is no secret is lost: %.300s", masked.String())
	}
	if !strings.Contains(shown.String(), "\x1b[36m→\x1b[0m") || !strings.Contains(shown.String(), "…") {
		t.Errorf("shown is %.300s", shown.String())
	}
}

func TestWhoLooksOnTooSlowlyMissesSomeAndIsTold(t *testing.T) {
	var h Hub
	if h.Watched("a") {
		t.Error("nobody looks on")
	}
	q, stop := h.Open("a")
	other, stopOther := h.Open("")
	defer stopOther()
	if !h.Watched("a") || !h.Watched("b") {
		t.Error("somebody looks on")
	}
	for i := range MaxWaiting + 5 {
		h.Show(Event{Server: "a", Size: i})
	}
	h.Show(Event{Server: "b"})
	if n := len(q.Next(t.Context())); n != MaxWaiting {
		t.Errorf("%d wait", n)
	}
	h.Show(Event{Server: "a"})
	if next := q.Next(t.Context()); len(next) != 1 || next[0].Dropped != 5 {
		t.Errorf("then come %+v", next)
	}
	for range 3 {
		h.Show(Event{Server: "a", Message: make(json.RawMessage, MaxWaitingBytes/2)})
	}
	if next := q.Next(t.Context()); len(next) != 2 {
		t.Errorf("%d large ones wait", len(next))
	}
	stop()
	if next := q.Next(t.Context()); next != nil || !h.Watched("b") {
		t.Errorf("after the end come %d", len(next))
	}
	if n := len(other.Next(t.Context())); n != MaxWaiting {
		t.Errorf("the other one has %d", n)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if next := other.Next(ended); next != nil {
		t.Errorf("after the end of the context come %d", len(next))
	}
	var out bytes.Buffer
	if err := (&Printer{W: &out}).Show(Event{Method: "x", Dropped: 5}); err != nil || !strings.Contains(out.String(), "5 messages are not shown") {
		t.Errorf("it says %s", out.String())
	}
}

func TestNobodyWhoLooksOnCostsNoMemory(t *testing.T) {
	var h Hub
	if n := testing.AllocsPerRun(100, func() {
		if h.Watched("server") {
			panic("nobody does")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestTheOldestRequestWithoutAnAnswerIsForgotten(t *testing.T) {
	c := newConversation()
	for i := range maxPending + 1 {
		c.read(time.Now(), Client, fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"ping"}`, i))
	}
	answer := func(id int) string {
		return c.read(time.Now(), Server, fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"result":{}}`, id))[0].Method
	}
	if answer(0) != "" || answer(1) != "ping" || answer(maxPending) != "ping" {
		t.Error("the wrong one is forgotten")
	}
	if len(c.pending) != c.oldest.Len() || c.oldest.Len() != maxPending-2 {
		t.Errorf("%d and %d are remembered", len(c.pending), c.oldest.Len())
	}
}

func TestRequestsWithALongIDAreNotRemembered(t *testing.T) {
	c := newConversation()
	for _, text := range []string{
		`{"jsonrpc":"2.0","id":"` + strings.Repeat("x", 1<<20) + `","method":"ping"}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + strings.Repeat("x", 1<<20) + `"}}`,
	} {
		c.read(time.Now(), Client, []byte(text))
	}
	if len(c.pending) != 0 {
		t.Errorf("%d are remembered", len(c.pending))
	}
	c.read(time.Now(), Client, []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"a":"`+strings.Repeat("x", 1<<20)+`"}}}`))
	if len(c.pending) != 1 {
		t.Errorf("%d are remembered, want the one with a short name", len(c.pending))
	}
}
