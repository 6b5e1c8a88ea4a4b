package stdio

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/wire/jsonrpc"
)

// readAll reads until the stream ends. Faults after which it continues stand in
// the list as "!" and their text.
func readAll(r io.Reader, limit int, log *slog.Logger) (frames []string, end error) {
	s := newStream(r, nil, Auto, dragoman.Limits{MaxMessage: limit}, log, nil)
	for {
		b, err := s.Read()
		var bad *jsonrpc.BadFrame
		switch {
		case errors.As(err, &bad):
			frames = append(frames, "!"+bad.Error())
		case err != nil:
			return frames, err
		default:
			frames = append(frames, string(b))
		}
	}
}

// framed returns text with a header before it.
func framed(text string) string {
	return fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(text), text)
}

const (
	ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	list = `{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{}}`
	text = `{"jsonrpc":"2.0","id":3,"method":"a","params":{"q":"HTTP 404 の意味は？"}}`
)

func TestMessagesAreFoundInWhateverArrives(t *testing.T) {
	for _, test := range []struct {
		name, input string
		want        []string
	}{
		{"A07 one JSON object a line", ping + "\n" + list + "\n", []string{ping, list}},
		{"A11 trailing white space trimmed, blank lines ignored", "\n\r\n  \t\n" + ping + " \t \r\n\n\n" + list + "\r\n\n", []string{ping, list}},
		{"the last line may lack its end", ping + "\n" + list, []string{ping, list}},
		{"a byte order mark before a line", "\xef\xbb\xbf" + ping + "\n", []string{ping}},
		{"E08 a byte order mark before a header", "\xef\xbb\xbf" + framed(ping), []string{ping}},
		{"E01 frames in a row", framed(ping) + framed(list) + framed(text), []string{ping, list, text}},
		{"E01 lengths are bytes, not characters", framed(text), []string{text}},
		{"stray newlines between frames", "\n" + framed(ping) + "\r\n\n" + framed(list) + "\n", []string{ping, list}},
		{"the newline counted in the length", fmt.Sprintf("Content-Length: %d\r\n\r\n%s\n", len(ping)+1, ping) + framed(list), []string{ping, list}},
		{"header names in any case, other headers, bare newlines", "content-length:" + fmt.Sprint(len(ping)) + "\nContent-Type: application/json; charset=utf-8\n\n" + ping + framed(list), []string{ping, list}},
		{"a type before the length", "Content-Type: application/json\r\n" + framed(ping), []string{ping}},
		{"E02 frames, then lines, then frames", framed(ping) + list + "\n" + framed(text), []string{ping, list, text}},
		{"E08 no blank line behind the header: a line follows", fmt.Sprintf("Content-Length: %d\r\n%s\n", len(ping), ping) + list + "\n", []string{ping, list}},
		{"E08 length too short", fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(ping)-5, ping) + framed(list), []string{ping, list}},
		{"E08 length too long", fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(ping)+9, ping) + framed(list), []string{ping, list}},
		{"a line break inside a frame", framed("{\n" + ping[1:]), []string{"{\n" + ping[1:]}},
		{"junk is a line like others", "Starting…\n" + ping + "\n", []string{"Starting…", ping}},
		{"a line that begins like a header's first letters", "Con\n" + ping + "\n", []string{"Con", ping}},
		{"length that is no number", "Content-Length: many\r\n\r\n" + ping + "\n", []string{`!dragoman: bad message at byte 0: Content-Length "many" is not a number of bytes`, ping}},
		{"header without a length", "Content-Type: text/plain\r\n\r\n" + ping + "\n", []string{"!dragoman: bad message at byte 0: the header has no Content-Length", ping}},
		{"no JSON behind a header", "Content-Length: 10\r\n\r\nnot a JSON\r\n" + framed(ping), []string{"not a JSON", ping}},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, reader := range []struct {
				name string
				r    io.Reader
			}{
				{"all at once", strings.NewReader(test.input)},
				{"byte by byte", iotest.OneByteReader(strings.NewReader(test.input))},
				{"in halves", iotest.HalfReader(strings.NewReader(test.input))},
				{"end with the data", iotest.DataErrReader(strings.NewReader(test.input))},
			} {
				got, err := readAll(reader.r, 0, nil)
				if !slices.Equal(got, test.want) || !errors.Is(err, io.EOF) {
					t.Errorf("%s: read %q, then %v, want %q", reader.name, got, err, test.want)
				}
			}
		})
	}
}

func TestLastMessageCountsWithoutItsEndWhateverEndsTheStream(t *testing.T) {
	const answer = `{"jsonrpc":"2.0","id":1,"result":{}}`
	for _, test := range []struct {
		name   string
		chunks []string
		want   []string
	}{
		{"a line", []string{ping + "\n", answer}, []string{ping, answer}},
		{"a line and white space", []string{answer + " \r"}, []string{answer}},
		{"a batch", []string{"[" + answer + "]"}, []string{"[" + answer + "]"}},
		{"half a line", []string{ping + "\n", answer[:20]}, []string{ping}},
		{"no JSON", []string{ping + "\n", "done"}, []string{ping}},
		{"a frame", []string{framed(ping), framed(answer)}, []string{ping, answer}},
		{"a frame that promises more", []string{"Content-Length: 50\r\n\r\n" + answer[:len(answer)-1], answer[len(answer)-1:]}, []string{answer}},
		{"a header without a blank line", []string{"Content-Length: 36\r\n" + answer}, []string{answer}},
		{"half a frame", []string{framed(answer)[:40]}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			exit := &ExitError{Command: "server"}
			readers := []io.Reader{iotest.ErrReader(exit)}
			for _, c := range slices.Backward(test.chunks) {
				readers = append([]io.Reader{strings.NewReader(c)}, readers...)
			}
			got, err := readAll(io.MultiReader(readers...), 0, nil)
			if !slices.Equal(got, test.want) || !errors.Is(err, exit) {
				t.Errorf("got %q, %v; want %q and the exit", got, err, test.want)
			}
		})
	}
}

func TestLengthThatPromisesTooMuchIsNotWaitedFor(t *testing.T) {
	r, w := io.Pipe()
	defer w.Close()
	go fmt.Fprintf(w, "Content-Length: 118\r\n\r\n%s", ping) // and nothing more
	s := newStream(r, nil, Auto, dragoman.Limits{}, nil, nil)
	got, err := s.Read()
	if err != nil || string(got) != ping {
		t.Errorf("read %q, %v", got, err)
	}
}

func TestS09_LinesAndFramesOverTheLimitAreSkipped(t *testing.T) {
	long := `{"jsonrpc":"2.0","id":7,"result":{"x":"` + strings.Repeat("y", 300) + `"}}`
	for _, test := range []struct{ name, input string }{
		{"line", long + "\n" + ping + "\n"},
		{"frame", framed(long) + framed(ping)},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newStream(iotest.OneByteReader(strings.NewReader(test.input)), nil, Auto, dragoman.Limits{MaxMessage: 100}, nil, nil)
			_, err := s.Read()
			var bad *jsonrpc.BadFrame
			if !errors.As(err, &bad) || !errors.Is(err, dragoman.ErrTooLarge) {
				t.Fatalf("Read: %v, want ErrTooLarge", err)
			}
			if !strings.HasPrefix(long, string(bad.Head)) || !strings.HasSuffix(long, string(bad.Tail)) || len(bad.Head) == 0 || len(bad.Tail) == 0 {
				t.Errorf("kept %q … %q", bad.Head, bad.Tail)
			}
			if got, err := s.Read(); err != nil || string(got) != ping {
				t.Errorf("afterwards: %q, %v", got, err)
			}
		})
	}
	if got, err := readAll(strings.NewReader(strings.Repeat("y", 100)+"\n"+strings.Repeat("z", 101)+"\n"), 100, nil); len(got) != 2 || len(got[0]) != 100 || got[1][0] != '!' || !errors.Is(err, io.EOF) {
		t.Errorf("at the limit: %q, %v", got, err)
	}
	endlessLine := io.LimitReader(zeros{}, 1<<20)
	if got, err := readAll(endlessLine, 1000, nil); !errors.Is(err, dragoman.ErrTooLarge) || len(got) != 0 {
		t.Errorf("line without end: %q, %v, want ErrTooLarge and the end", got, err)
	}
}

// A largest records the size of the largest buffer that it is asked to fill, with what is
// in it already.
type largest struct {
	*strings.Reader
	size int
}

func (r *largest) Read(b []byte) (int, error) {
	r.size = max(r.size, cap(b))
	return r.Reader.Read(b)
}

func TestS09_BufferIsNotMuchLargerThanTheLargestMessage(t *testing.T) {
	const limit = 200_000
	message := `{"jsonrpc":"2.0","id":7,"result":{"x":"` + strings.Repeat("y", limit-50) + `"}}`
	tooLong := `{"jsonrpc":"2.0","id":7,"result":{"x":"` + strings.Repeat("y", 4*limit) + `"}}`
	for _, test := range []struct {
		name, input string
		want        string
	}{
		{"line", message + "\n", message},
		{"lines behind one another", ping + "\n" + message + "\n" + message + "\n", message},
		{"line that is too long", tooLong + "\n" + message + "\n", message},
		{"frame", framed(message), message},
		{"frame that says too little", "Content-Length: 10\r\n\r\n" + message + framed(ping), ping},
		{"frame that is too long and says too little", "Content-Length: 10\r\n\r\n" + tooLong + "\n" + ping + "\n", ping},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := &largest{Reader: strings.NewReader(test.input)}
			if got, err := readAll(r, limit, nil); !errors.Is(err, io.EOF) || len(got) == 0 || got[len(got)-1] != test.want {
				t.Errorf("%d messages, the last %.50q; %v", len(got), got[max(0, len(got)-1):], err)
			}
			if r.size > limit+firstBuffer {
				t.Errorf("a buffer of %d bytes for messages of %d", r.size, limit)
			}
		})
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { return len(b), nil }

func TestE02_AnswersGoOutAsTheLastMessageCameIn(t *testing.T) {
	var out bytes.Buffer
	r, w := io.Pipe()
	s := newStream(r, &out, Auto, dragoman.Limits{}, nil, nil)
	m, _ := dragoman.Parse([]byte("{\"jsonrpc\":\"2.0\",\n\"id\":1,\r\n\"result\":{}}"))
	say := func(text string) string {
		go io.WriteString(w, text)
		if _, err := s.Read(); err != nil {
			t.Fatal(err)
		}
		out.Reset()
		if err := s.Write([]jsonrpc.Frame{m, m}); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	line := "{\"jsonrpc\":\"2.0\", \"id\":1,  \"result\":{}}\n"
	if got := say(ping + "\n"); got != line+line {
		t.Errorf("to lines: %q", got)
	}
	if got := say(framed(ping)); got != framed(m.String())+framed(m.String()) {
		t.Errorf("to frames: %q", got)
	}
	if got := say("\r\n" + ping + "\n"); got != line+line {
		t.Errorf("to lines again: %q", got)
	}
}

func TestE07_DebugOutputShowsEachStepWithoutSecrets(t *testing.T) {
	var log, out bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: jsonrpc.LevelSteps}))
	s := newStream(strings.NewReader(framed(ping)), &out, Auto, dragoman.Limits{}, logger, nil)
	if _, err := s.Read(); err != nil {
		t.Fatal(err)
	}
	m, _ := dragoman.Parse([]byte(`{"jsonrpc":"2.0","id":1,"result":{"api_key":"hunter2","ok":true}}`))
	if err := s.Write([]jsonrpc.Frame{m}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"chunk=", "headerEnd=", "mode=framed", fmt.Sprintf("bytes=%d", m.Len()), "[redacted]", `\"ok\":true`} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("A32: the log lacks %q:\n%s", want, log.String())
		}
	}
	if strings.Contains(log.String(), "hunter2") {
		t.Errorf("A32: the log holds the secret:\n%s", log.String())
	}
	if !strings.Contains(out.String(), "hunter2") {
		t.Error("the message itself was changed")
	}
}

func TestE07_LogLevelMayChangeWhileTheStreamIsOpen(t *testing.T) {
	var (
		log   bytes.Buffer
		level slog.LevelVar
	)
	logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: &level}))
	s := newStream(iotest.OneByteReader(strings.NewReader(ping+"\n"+ping+"\n")), io.Discard, Auto, dragoman.Limits{}, logger, nil)
	m, _ := dragoman.Parse([]byte(ping))
	for _, step := range []struct {
		level slog.Level
		wants bool
	}{{slog.LevelInfo, false}, {jsonrpc.LevelSteps, true}} {
		level.Set(step.level)
		if _, err := s.Read(); err != nil {
			t.Fatal(err)
		}
		if err := s.Write([]jsonrpc.Frame{m}); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(log.String(), "chunk=") && strings.Contains(log.String(), "mode=line"); got != step.wants {
			t.Errorf("at level %v each step is logged: %v\n%s", step.level, got, &log)
		}
	}
}

// FuzzFrames checks that the same messages are read however the bytes arrive.
func FuzzFrames(f *testing.F) {
	f.Add([]byte(ping+"\n"+list+"\n"), uint8(1))
	f.Add([]byte(framed(ping)+framed(text)), uint8(3))
	f.Add([]byte("\xef\xbb\xbfContent-Length: 5\r\n\r\n{\"a\":1}\n"+ping), uint8(7))
	f.Add([]byte("Content-Length: 90\r\n\r\n"+ping+framed(list)), uint8(2))
	f.Add([]byte("Content-Length: 3\r\n"+ping+"\n\n\r\njunk\nContent-"), uint8(5))
	f.Fuzz(func(t *testing.T, data []byte, step uint8) {
		const limit = 200
		whole, err := readAll(bytes.NewReader(data), limit, nil)
		if err == nil {
			t.Fatal("the end of the stream is no error")
		}
		chunked, err2 := readAll(&chunks{data, int(step%16) + 1}, limit, nil)
		if !slices.Equal(whole, chunked) || err.Error() != err2.Error() {
			t.Errorf("at once %q, %v\nin chunks of %d %q, %v", whole, err, step%16+1, chunked, err2)
		}
		for _, frame := range whole {
			if len(frame) > limit && frame[0] != '!' {
				t.Errorf("%d bytes were read over the limit", len(frame))
			}
		}
	})
}

// chunks is a reader of a few bytes at a time.
type chunks struct {
	data []byte
	n    int
}

func (c *chunks) Read(b []byte) (int, error) {
	if len(c.data) == 0 {
		return 0, io.EOF
	}
	n := copy(b, c.data[:min(c.n, len(c.data))])
	c.data = c.data[n:]
	return n, nil
}

// FuzzFrameRoundTrip checks that what one side writes the other reads, in
// either framing, and nothing more.
func FuzzFrameRoundTrip(f *testing.F) {
	f.Add(`{"a":"b"}`, uint8(3), true)
	f.Add("{\n\"q\":\"の\"\r\n}", uint8(1), false)
	f.Fuzz(func(t *testing.T, params string, step uint8, header bool) {
		m, err := dragoman.NewRequest(dragoman.IntID(1), "m", []byte(params))
		if err != nil {
			return
		}
		framing := Lines
		if header {
			framing = ContentLength
		}
		var wire bytes.Buffer
		w := newStream(nil, &wire, framing, dragoman.Limits{}, nil, nil)
		if err := w.Write([]jsonrpc.Frame{m, m, m}); err != nil {
			t.Fatal(err)
		}
		got, err := readAll(&chunks{wire.Bytes(), int(step%16) + 1}, 0, nil)
		want := m.String()
		if !header {
			one := []byte(want)
			dragoman.OneLine(one)
			want = string(one)
		}
		if !errors.Is(err, io.EOF) || !slices.Equal(got, []string{want, want, want}) {
			t.Errorf("wrote %q, read %q, %v", want, got, err)
		}
	})
}
