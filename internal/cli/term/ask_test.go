package term

import (
	"context"
	"errors"
	"io"
	"testing"
)

// A watched says when somebody reads.
type watched struct {
	io.Reader
	began chan struct{} // gets a token with the first read
}

func (w *watched) Read(p []byte) (int, error) {
	select {
	case w.began <- struct{}{}:
	default:
	}
	return w.Reader.Read(p)
}

func TestWhatIsTypedAfterAQuestionWasGivenUpIsNotLost(t *testing.T) {
	in, user := io.Pipe()
	w := &watched{in, make(chan struct{}, 1)}
	a := &Asking{In: w}
	gone, cancel := context.WithCancel(t.Context())
	go func() { // ends with the question, which is given up
		<-w.began
		cancel()
	}()
	if text, err := a.Line(gone); !errors.Is(err, context.Canceled) {
		t.Fatalf("%q, %v", text, err)
	}
	go func() { // ends when all is read
		for _, line := range []string{"one\n", "two\n"} {
			_, _ = io.WriteString(user, line)
		}
		_ = user.Close()
	}()
	for _, want := range []string{"one", "two", ""} {
		if text, err := a.Line(t.Context()); text != want || (err != nil) != (want == "") {
			t.Errorf("%q, %v; want %q", text, err, want)
		}
	}
}
