package sse_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/wire/sse"
)

// readAll returns the events of a stream, one text each, and its end.
func readAll(r io.Reader, limit int) (events []string, end error) {
	s := sse.NewReader(r, limit)
	for {
		e, err := s.Next()
		if err != nil {
			return events, err
		}
		events = append(events, fmt.Sprintf("%s|%s|%d|%s", e.Name, e.ID, e.Retry, e.Data))
	}
}

func TestS18_StreamsAreReadByTheStandard(t *testing.T) {
	for _, test := range []struct {
		name, in string
		want     []string
	}{
		{"one event", "data: a\n\n", []string{"||0|a"}},
		{"name and id in any order", "id: 7\ndata: a\nevent: x\n\n", []string{"x|7|0|a"}},
		{"lines end in LF, CR or both", "data: a\r\n\r\ndata: b\r\rdata: c\n\n", []string{"||0|a", "||0|b", "||0|c"}},
		{"several data lines are joined", "data: a\ndata:\ndata: b\n\n", []string{"||0|a\n\nb"}},
		{"one space is dropped, more stay", "data:a\n\ndata:  b \n\n", []string{"||0|a", "||0| b "}},
		{"a field without a colon is empty", "data: a\ndata\n\n", []string{"||0|a\n"}},
		{"comments and unknown fields are skipped", ": hello\n:\nfoo: bar\ndata: a\n\n:\n\n", []string{"||0|a"}},
		{"a byte order mark is skipped", "\xef\xbb\xbfdata: a\n\n", []string{"||0|a"}},
		{"the id stays until another is named", "id: 1\ndata: a\n\ndata: b\n\nid\ndata: c\n\n", []string{"|1|0|a", "|1|0|b", "||0|c"}},
		{"an id with NUL is ignored", "id: 1\x00\ndata: a\n\n", []string{"||0|a"}},
		{"retry is digits alone", "retry: 500\n\nretry: 5s\n\nretry:\n\nretry: 0\ndata: a\n\n", []string{"||500|", "||1|a"}},
		{"an empty event with an id counts", "id: p\ndata:\n\n", []string{"|p|0|"}},
		{"an empty event without one does not", "data:\n\nevent: x\n\ndata: a\n\n", []string{"||0|a"}},
		{"a colon in the value", "data: {\"a\":1}\n\n", []string{`||0|{"a":1}`}},
		{"an event that the end cuts off", "data: a\n\ndata: b\n", []string{"||0|a"}},
		{"whole JSON without the last blank line", "data: {\"a\":1}\n", []string{`||0|{"a":1}`}},
		{"nor the last line end", "data: {\"a\":1}", []string{`||0|{"a":1}`}},
		{"nothing", "", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, r := range []io.Reader{
				strings.NewReader(test.in),
				iotest.OneByteReader(strings.NewReader(test.in)),
				iotest.DataErrReader(iotest.HalfReader(strings.NewReader(test.in))),
			} {
				got, err := readAll(r, 1000)
				if !slices.Equal(got, test.want) || !errors.Is(err, io.EOF) {
					t.Errorf("%q is read as %q, %v, want %q", test.in, got, err, test.want)
				}
			}
		})
	}
}

func TestS18_EventsOverTheLimitEndTheStream(t *testing.T) {
	for name, in := range map[string]string{
		"one line":       "data: " + strings.Repeat("x", 100) + "\n\n",
		"many lines":     strings.Repeat("data: x\n", 50) + "\n",
		"without an end": "data: " + strings.Repeat("x", 1000),
		"one comment":    ":" + strings.Repeat("x", 1000) + "\n\n",
	} {
		if got, err := readAll(strings.NewReader(in), 100); !errors.Is(err, dragoman.ErrTooLarge) || len(got) > 0 {
			t.Errorf("%s: %q, %v, want ErrTooLarge", name, got, err)
		}
	}
	many := strings.Repeat("data: 0123456789\n\n", 1000)
	if got, err := readAll(strings.NewReader(many), 100); len(got) != 1000 || !errors.Is(err, io.EOF) {
		t.Errorf("%d small events, %v, want 1000", len(got), err)
	}
}

func TestS18_EventOverTheLimitCanBeSkipped(t *testing.T) {
	long := strings.Repeat("x", 1000)
	for name, in := range map[string]string{
		"one line":   `data: {"id":1,"result":"` + long + `"}` + "\n\n",
		"many lines": "event: message\r\ndata: {\"id\":1,\r\ndata: \"result\":\"" + strings.Repeat("x\r\ndata: x", 100) + "\"}\r\n\r\n",
		"CR":         `data: {"id":1,"result":"` + long + "\rid: 5\r\r",
	} {
		for _, r := range []io.Reader{
			strings.NewReader(in + "data: after\n\n"),
			iotest.OneByteReader(strings.NewReader(in + "data: after\n\n")),
		} {
			s := sse.NewReader(r, 100)
			if _, err := s.Next(); !errors.Is(err, dragoman.ErrTooLarge) {
				t.Fatalf("%s: %v, want ErrTooLarge", name, err)
			}
			head, tail, err := s.Skip(2000)
			if err != nil || !bytes.HasPrefix(bytes.TrimSpace(head), []byte(`{"id":1,`)) || len(tail) == 0 || len(tail) > 256 {
				t.Errorf("%s: skipped %q … %q, %v", name, head, tail, err)
			}
			if e, err := s.Next(); err != nil || string(e.Data) != "after" {
				t.Errorf("%s: then comes %v, %v", name, e, err)
			}
		}
	}
	s := sse.NewReader(strings.NewReader("data: "+long+"\n\n"), 100)
	_, _ = s.Next()
	if _, _, err := s.Skip(100); !errors.Is(err, dragoman.ErrTooLarge) {
		t.Errorf("far too long: %v, want ErrTooLarge", err)
	}
}

func TestS16_NothingInAPayloadEndsOrAddsAnEvent(t *testing.T) {
	text := "a\u2028b\u2029c\u0085d\n\nevent: x\ndata: injected\r\rid: 9\n\n"
	data, err := json.Marshal(map[string]string{"text": text})
	if err != nil {
		t.Fatal(err)
	}
	// As written by those who do not escape what JSON lets stand.
	data = bytes.ReplaceAll(bytes.ReplaceAll(data, []byte(`\u2028`), []byte("\u2028")), []byte(`\u2029`), []byte("\u2029"))
	data = append([]byte("{\r\n"), data[1:]...)
	wire := sse.Append(nil, &sse.Event{Name: "message\nid: 5", ID: "7\r\ndata: x\x00", Retry: 3, Data: data})
	if n := bytes.Count(wire, []byte("\n")); n != 5 {
		t.Errorf("%d lines, want 5: %q", n, wire)
	}
	if bytes.ContainsAny(wire, "\r\u2028\u2029\u0085\x00") {
		t.Errorf("%q holds what ends a line somewhere", wire)
	}
	r := sse.NewReader(bytes.NewReader(wire), 1000)
	e, err := r.Next()
	if err != nil {
		t.Fatal(err)
	}
	var got struct{ Text string }
	if err := json.Unmarshal(e.Data, &got); err != nil || got.Text != text {
		t.Errorf("%q arrives as %q (%v)", text, got.Text, err)
	}
	if e.Name != "messageid: 5" || e.ID != "7data: x" || e.Retry != 3 {
		t.Errorf("event %+v", e)
	}
	if _, err := r.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("a second event: %v", err)
	}
}

func TestA20_A22_StreamStartsAtOnceAndIsNotBuffered(t *testing.T) {
	got := make(chan string)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		s, err := sse.Start(w, 0)
		if err != nil {
			t.Error(err)
			return
		}
		<-got // the headers and the comment have arrived
		if err := s.Event(&sse.Event{Name: "message", Data: []byte(`{"a":1}`)}); err != nil {
			t.Error(err)
		}
		<-got
		if err := s.Comment("keep-alive"); err != nil {
			t.Error(err)
		}
		<-got
	}))
	defer server.Close()
	resp, err := http.Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	for header, want := range map[string]string{
		"Content-Type": "text/event-stream", "X-Accel-Buffering": "no",
		"Cache-Control": "no-cache, no-transform", "Content-Encoding": "",
	} {
		if v := resp.Header.Get(header); v != want {
			t.Errorf("%s is %q, want %q", header, v, want)
		}
	}
	for _, want := range []string{": ok\n\n", "event: message\ndata: {\"a\":1}\n\n", ": keep-alive\n\n"} {
		b := make([]byte, len(want))
		if _, err := io.ReadFull(resp.Body, b); err != nil || string(b) != want {
			t.Errorf("read %q, %v, want %q", b, err, want)
		}
		got <- want
	}
}

func TestReaderThatDoesNotReadIsCut(t *testing.T) {
	ended := make(chan error, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		s, err := sse.Start(w, 50*time.Millisecond)
		big := &sse.Event{Data: bytes.Repeat([]byte("x"), 1<<20)}
		for range 1000 {
			if err != nil {
				break
			}
			err = s.Event(big)
		}
		ended <- err
	}))
	defer server.Close()
	resp, err := http.Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("1000 MiB were written to nobody")
		}
	case <-time.After(30 * time.Second):
		t.Error("the write continues")
	}
}

// FuzzReader checks that the same events are read however the bytes arrive.
func FuzzReader(f *testing.F) {
	f.Add([]byte("\xef\xbb\xbfid: 1\r\ndata: a\r\rdata\n\n: c\nretry: 5\n\ndata: {}"), uint8(1))
	f.Add([]byte("event: x\ndata: a\ndata: b\n\n"), uint8(3))
	f.Fuzz(func(t *testing.T, data []byte, step uint8) {
		whole, err := readAll(bytes.NewReader(data), 64)
		chunked, err2 := readAll(&chunks{data, int(step%16) + 1}, 64)
		if !slices.Equal(whole, chunked) || err.Error() != err2.Error() {
			t.Errorf("at once %q, %v\nin chunks of %d %q, %v", whole, err, step%16+1, chunked, err2)
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

// FuzzRoundTrip checks that an event arrives as one, with the same JSON in it.
func FuzzRoundTrip(f *testing.F) {
	f.Add("message", "s_1", 0, `{"text":"a b"}`)
	f.Add("x\ny", "\r", 17, "{\n\"a\":\r\n1}")
	f.Fuzz(func(t *testing.T, name, id string, retry int, data string) {
		if !json.Valid([]byte(data)) {
			return
		}
		wire := sse.Append(nil, &sse.Event{Name: name, ID: id, Retry: retry, Data: []byte(data)})
		wire = sse.AppendComment(wire, name)
		r := sse.NewReader(bytes.NewReader(wire), len(wire))
		e, err := r.Next()
		if err != nil {
			t.Fatalf("%q: %v", wire, err)
		}
		if got, want := decoded(t, e.Data), decoded(t, []byte(data)); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("sent %q, got %q", data, e.Data)
		}
		clean := strings.NewReplacer("\r", "", "\n", "", "\x00", "")
		if e.Name != clean.Replace(name) || e.ID != clean.Replace(id) {
			t.Errorf("sent name %q and id %q, got %q and %q", name, id, e.Name, e.ID)
		}
		if _, err := r.Next(); !errors.Is(err, io.EOF) {
			t.Errorf("%q holds more than one event: %v", wire, err)
		}
	})
}

// decoded decodes JSON with its numbers as they are spelt.
func decoded(t *testing.T, data []byte) (v any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%q: %v", data, err)
	}
	return v
}
