package admission

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/gateway/config"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpserver"
	"github.com/dragoman-mcp/dragoman/protocol"
)

const mib = 1 << 20

// endless is a body that comes as it is read.
type endless struct{ read int64 }

func (b *endless) Read(p []byte) (int, error) {
	b.read += int64(len(p))
	return len(p), nil
}

func (*endless) Close() error { return nil }

// An upload is a request whose body has been read up to a refusal, or up to its end.
type upload struct {
	body    endless
	release func()
	refusal *httpserver.Refusal
}

// uploads has bodies read of requests from addresses, of a length or, if that is negative, in
// chunks.
func uploads(t *testing.T, e *Admission, declared, size int64, addresses ...string) (list []*upload) {
	t.Helper()
	for _, address := range addresses {
		u := &upload{}
		r := httptest.NewRequest(http.MethodPost, "/mcp", nil)
		r.RemoteAddr, r.ContentLength, r.Body = address+":1", declared, &u.body
		r, u.release = e.Admit(r)
		_, err := io.CopyN(io.Discard, r.Body, size)
		refusal, ok := errors.AsType[*httpserver.Refusal](err)
		if err != nil && !ok {
			t.Fatal(err)
		}
		u.refusal = refusal
		list = append(list, u)
	}
	return list
}

func addresses(n int, format string) (list []string) {
	for i := range n {
		list = append(list, fmt.Sprintf(format, i))
	}
	return list
}

func count(list []*upload, status int) (n int) {
	for _, u := range list {
		if (u.refusal == nil) == (status == 0) && (u.refusal == nil || u.refusal.Status == status) {
			n++
		}
	}
	return n
}

func admissionWith(memory config.Size) *Admission {
	return New(&config.Limits{Memory: memory}, nil, slog.New(slog.DiscardHandler))
}

// 40 bodies of 4 MiB at once ended a process with 96 MiB.
func TestS14_BodiesAreAdmittedByTheirSizeBeforeTheyAreRead(t *testing.T) {
	for name, declared := range map[string]int64{"of a known length": 4 * mib, "in chunks": -1} {
		t.Run(name, func(t *testing.T) {
			e := admissionWith(96 * mib)
			one := uploads(t, e, declared, 4*mib, slices.Repeat([]string{"192.0.2.1"}, 40)...)
			if in, out := count(one, 0), count(one, http.StatusTooManyRequests); in < 2 || in > 3 || in+out != 40 {
				t.Errorf("of one caller %d are read and %d get 429", in, out)
			}
			many := uploads(t, e, declared, 4*mib, addresses(40, "198.51.100.%d")...)
			if in, out := count(many, 0), count(many, http.StatusServiceUnavailable); in < 2 || in > 3 || in+out != 40 {
				t.Errorf("of others %d are read and %d get 503", in, out)
			}
			read := int64(0)
			for _, u := range append(one, many...) {
				read += u.body.read
				if u.refusal != nil && (u.refusal.Code != protocol.CodeOverloaded || declared >= 0 && u.body.read > 0) {
					t.Errorf("refused with %+v after %d bytes", u.refusal, u.body.read)
				}
				u.release()
			}
			if read > 24*mib+80*bodyStep {
				t.Errorf("%d bytes are read, want at most a quarter of the memory", read)
			}
			if again := uploads(t, e, declared, 4*mib, "192.0.2.1", "192.0.2.2"); count(again, 0) != 2 {
				t.Error("there is no room when all are over")
			}
		})
	}
}

func TestBodyThatNeverFitsIs413(t *testing.T) {
	for name, declared := range map[string]int64{"of a known length": 13 * mib, "in chunks": -1} {
		t.Run(name, func(t *testing.T) {
			list := uploads(t, admissionWith(96*mib), declared, 13*mib, "192.0.2.1")
			want := http.StatusRequestEntityTooLarge
			if declared < 0 {
				want = http.StatusTooManyRequests // nobody knows how long it is
			}
			if count(list, want) != 1 {
				t.Errorf("%+v", list[0].refusal)
			}
		})
	}
}

// Answers and cancels still come in when large bodies fill their room.
func TestSmallBodiesHaveARoomOfTheirOwn(t *testing.T) {
	e := admissionWith(96 * mib)
	uploads(t, e, 4*mib, 4*mib, addresses(40, "198.51.100.%d")...)
	if list := uploads(t, e, largeBody, largeBody, addresses(10, "198.51.100.%d")...); count(list, 0) != 10 {
		t.Errorf("%d of 10 small ones are read", count(list, 0))
	}
	if list := uploads(t, e, largeBody, largeBody, addresses(1000, "203.0.113.%d")...); count(list, 0) > 12*16 {
		t.Errorf("%d of 1000 small ones are read", count(list, 0))
	}
	if _, release := e.Admit(httptest.NewRequest(http.MethodPost, "/mcp", nil)); release != nil {
		t.Error("a body of few bytes is counted")
	}
}

// Requests on sockets and streams count while they are in flight.
func TestS38_LargeRequestsInFlightOnSocketsAreBounded(t *testing.T) {
	e := admissionWith(96 * mib)
	text := make([]byte, 0, 4*mib+100)
	text = append(text, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`...)
	for len(text) < 4*mib {
		text = append(text, 'x')
	}
	req, err := dragoman.Parse(append(text, `"}}`...))
	if err != nil {
		t.Fatal(err)
	}
	in := 0
	for range 40 {
		if e.enter("a", "ws", req) == nil {
			in++
		}
	}
	if in != 2 {
		t.Errorf("%d of 40 are in flight", in)
	}
	if refusal := e.enter("a", "ws", req); refusal == nil || refusal.Code != protocol.CodeOverloaded {
		t.Errorf("refused with %v", refusal)
	}
	if refusal := e.enter("b", "sse", req); refusal != nil {
		t.Errorf("another caller: %v", refusal)
	}
	if refusal := e.enter("a", HTTP, req); refusal != nil {
		t.Errorf("what is counted as a body: %v", refusal)
	}
	for range in {
		e.leave("a", "ws", req)
	}
	if refusal := e.enter("a", "ws", req); refusal != nil {
		t.Errorf("when they are over: %v", refusal)
	}
}
