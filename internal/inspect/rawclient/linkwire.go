package rawclient

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman/protocol"
)

// A Link carries texts one after the other.
type Link interface {
	// Send ends with ctx also if the server does not read. Several goroutines call it.
	Send(ctx context.Context, text []byte) error

	// Receive returns the next text that the server wrote. One goroutine calls it.
	Receive() ([]byte, error)

	// Close ends the link, and with it a Receive.
	Close()
}

const (
	// quiet is how long an answer is waited for that need not come, and the right one after
	// one with a wrong id.
	quiet = 500 * time.Millisecond

	// brief is the same once the server has shown that the wait is in vain.
	brief = 50 * time.Millisecond

	// maxKept and maxKeptBytes are how much is kept of what is not MCP, or part of no exchange.
	maxKept      = 100
	maxKeptBytes = 4 << 20

	// maxAnswers is how many requests of the server are answered in one exchange.
	maxAnswers = 100
)

// A budget is how much has been read in one exchange.
type budget struct{ messages, bytes int }

// What a server may write in one exchange, and in one list.
const (
	maxMessages = 10_000
	maxBytes    = 32 << 20
)

// ErrFlood says that a server wrote more in one exchange than is read.
var ErrFlood = fmt.Errorf("the server writes on and on: more than %d messages or %d MiB", maxMessages, maxBytes>>20)

// spend counts a text, and reports whether there is room for it.
func (b *budget) spend(text []byte) bool {
	b.messages++
	b.bytes += len(text)
	return b.messages <= maxMessages && b.bytes <= maxBytes
}

// A LinkWire is a Wire over a Link. One goroutine reads the link and ends with it.
type LinkWire struct {
	link Link
	in   chan []byte
	end  error       // of the link; set before in is closed
	over atomic.Bool // the link has ended

	// Noise is what the server wrote that is no JSON object, each text cut.
	Noise []string

	// OnNoise, if not nil, is told of the first, by who waits for an answer.
	OnNoise func(text string)

	// First is when the first text came, once it has been taken.
	First time.Time

	first       time.Time // set before the first text is put into in
	begun       bool      // there was an exchange
	loose       []*Message
	looseSize   int
	abandoned   map[string]bool // ids whose answers nobody waits for any more
	wrongIDWait time.Duration   // how long the right answer is waited for after one with a wrong id
}

// NewLinkWire begins to read a link, which is the LinkWire's from then on.
func NewLinkWire(link Link) *LinkWire {
	w := &LinkWire{link: link, in: make(chan []byte, 8), abandoned: map[string]bool{}, wrongIDWait: quiet}
	go w.read() // until the link ends, which Close sees to
	return w
}

func (w *LinkWire) read() {
	defer close(w.in)
	for {
		text, err := w.link.Receive()
		if err != nil {
			w.end = err
			w.over.Store(true)
			return
		}
		if w.first.IsZero() {
			w.first = time.Now()
		}
		w.in <- text // Close takes what no exchange does
	}
}

// Close ends the link and waits for the end of its reader. What the server writes meanwhile is taken:
// text that it has kept in a buffer comes at its end.
func (w *LinkWire) Close() {
	var taking sync.WaitGroup
	taking.Go(func() {
		for text := range w.in {
			w.take(text)
		}
	})
	w.link.Close()
	taking.Wait()
}

// Hurry says that the server is known to answer under wrong ids: the right answer is not long
// waited for behind such a one.
func (w *LinkWire) Hurry() { w.wrongIDWait = brief }

// Loose implements Wire.
func (w *LinkWire) Loose() []*Message { return w.loose }

// Notify implements Wire.
func (w *LinkWire) Notify(ctx context.Context, text []byte) *Exchange {
	return &Exchange{Sent: text, Err: w.link.Send(ctx, text)}
}

// Exchange implements Wire. It sends while it reads: a server may write before it reads on, and wait
// until that is read.
func (w *LinkWire) Exchange(ctx context.Context, r Request) *Exchange {
	id := r.ID
	x := &Exchange{Sent: r.Text}
	began := time.Now()
	defer func() { x.Took = time.Since(began) }()
	if w.begun { // what came before the first exchange belongs to it, however early the link was made
		w.drain(ctx)
	}
	w.begun = true
	var sends sync.WaitGroup
	defer sends.Wait() // a server that does not read has them end with ctx
	sent := make(chan error, 1)
	sends.Go(func() { sent <- w.link.Send(ctx, r.Text) })
	var spent budget
	var giveUp, impatient <-chan time.Time
	var witness json.RawMessage // id of the witness, until it is answered
	if r.Witness != nil {
		impatient = time.After(r.Patience)
		defer func() { w.abandon(witness) }()
	}
	answers, unread := 0, true
	for {
		select {
		case err := <-sent:
			if unread = false; err != nil {
				w.refused(x, err, id)
				return x
			}
			if id == nil {
				giveUp = time.After(quiet)
			}
		case text, open := <-w.in:
			if !open {
				if x.Answer == nil {
					x.Err = w.end
				}
				return x
			}
			m := w.takeMessage(text)
			if !spent.spend(text) {
				x.Err = ErrFlood
				w.abandon(id)
				return x
			}
			if m == nil || w.late(m) {
				continue
			}
			if witness != nil && m.Is(witness) {
				witness, impatient, giveUp = nil, nil, time.After(r.Patience)
				continue
			}
			x.Got = append(x.Got, m)
			switch {
			case m.IsRequest() && bytes.Equal(bytes.TrimSpace(text), x.Sent):
				x.Err = ErrEcho // our answer to it would come back, too
				return x
			case id != nil && m.Is(id):
				x.Answer, x.Misnamed = m, false
				return x
			case r.First:
				w.abandon(id)
				return x
			case m.IsRequest():
				if answers++; answers <= maxAnswers {
					sends.Go(func() { _ = w.link.Send(ctx, AnswerTo(m)) }) // if it is lost, the exchange sees that
				}
			case m.IsResponse():
				x.Answer, x.Misnamed = m, id != nil
				if id == nil {
					return x
				}
				giveUp, impatient = time.After(w.wrongIDWait), nil
			}
		case <-impatient:
			witness = r.Witness.ID
			sends.Go(func() { _ = w.link.Send(ctx, r.Witness.Text) }) // if it is lost, ctx ends the exchange
		case <-giveUp:
			if x.Answer == nil {
				x.Err = ErrSilent
				w.abandon(id)
			} else if x.Misnamed {
				w.Hurry()
			}
			return x
		case <-ctx.Done():
			if x.Answer == nil {
				if x.Err = context.Cause(ctx); unread {
					x.Err = fmt.Errorf("%w: the server does not read what it is sent", x.Err)
				}
				w.abandon(id)
			}
			return x
		}
	}
}

// refused ends an exchange whose text could not be sent.
func (w *LinkWire) refused(x *Exchange, err error, id json.RawMessage) {
	x.Err = err
	if refused, ok := errors.AsType[*PostError](err); ok {
		x.HTTP = refused.Reply
		if x.Answer = ReadMessage(refused.Reply.Body); x.Answer != nil {
			x.Got, x.Misnamed = append(x.Got, x.Answer), id != nil && !x.Answer.Is(id)
		}
	}
}

// abandon has answers passed over that come when nobody waits for them any more.
func (w *LinkWire) abandon(id json.RawMessage) {
	if id != nil {
		w.abandoned[string(id)] = true
	}
}

// late reports whether a message is the answer to a request that was given up.
func (w *LinkWire) late(m *Message) bool {
	return m.IsResponse() && w.abandoned[string(bytes.TrimSpace(m.ID))]
}

// All implements Wire. Answers with other ids are taken for those of requests that have none.
func (w *LinkWire) All(ctx context.Context, requests []Request) []*Exchange {
	list := unanswered(requests, ErrSilent)
	var sends sync.WaitGroup
	sends.Go(func() { // in order, and until ctx ends
		for _, r := range requests {
			if w.link.Send(ctx, r.Text) != nil {
				return
			}
		}
	})
	defer sends.Wait()
	var spent budget
	var stray []*Message
	answered := 0
	for over := false; !over && answered+len(stray) < len(list); {
		select {
		case text, open := <-w.in:
			if over = !open || !spent.spend(text); over {
				break // out of the select
			}
			m := w.takeMessage(text)
			if m == nil || w.late(m) || !m.IsResponse() {
				continue
			}
			if i := slices.IndexFunc(requests, func(r Request) bool { return m.Is(r.ID) }); i >= 0 && list[i].Answer == nil {
				list[i].Got, list[i].Answer, list[i].Err = []*Message{m}, m, nil
				answered++
			} else {
				stray = append(stray, m)
			}
		case <-ctx.Done():
			over = true
		}
	}
	for i, x := range list {
		if x.Answer != nil {
			continue
		}
		w.abandon(requests[i].ID)
		if len(stray) > 0 {
			x.Got, x.Answer, x.Misnamed, x.Err = stray[:1], stray[0], true, nil
			stray = stray[1:]
		}
	}
	return list
}

// unanswered returns the exchanges of requests that have no answer yet.
func unanswered(requests []Request, err error) (list []*Exchange) {
	for _, r := range requests {
		list = append(list, &Exchange{Sent: r.Text, Err: err})
	}
	return list
}

// drain takes what has come since the last exchange, and not what comes meanwhile forever.
func (w *LinkWire) drain(ctx context.Context) {
	for range maxMessages {
		select {
		case text, open := <-w.in:
			if !open || ctx.Err() != nil {
				return
			}
			w.take(text)
		default:
			return
		}
	}
}

// take keeps what is part of no exchange.
func (w *LinkWire) take(text []byte) {
	m := w.takeMessage(text)
	if m == nil || w.late(m) {
		return
	}
	if len(w.loose) < maxKept && w.looseSize+len(text) <= maxKeptBytes {
		w.loose, w.looseSize = append(w.loose, m), w.looseSize+len(text)
	}
}

// takeMessage reads a text, or keeps it as noise.
func (w *LinkWire) takeMessage(text []byte) *Message {
	w.First = w.first
	if len(bytes.TrimSpace(text)) == 0 {
		return nil
	}
	m := ReadMessage(text)
	if m == nil && len(w.Noise) < maxKept {
		w.Noise = append(w.Noise, string(text[:min(len(text), maxFrame)]))
		if len(w.Noise) == 1 && w.OnNoise != nil {
			w.OnNoise(w.Noise[0])
		}
	}
	return m
}

// AnswerTo returns our answer to a server's request: that we are there, that there are no roots, and
// else that we cannot.
func AnswerTo(m *Message) []byte {
	a := Object{"jsonrpc": "2.0", "id": m.ID}
	switch m.Method {
	case protocol.MethodPing:
		a["result"] = Object{}
	case protocol.MethodListRoots:
		a["result"] = Object{"roots": []string{}}
	default:
		a["error"] = Object{"code": protocol.CodeMethodNotFound, "message": "dragoman looks at the server and does nothing for it"}
	}
	return encode(a)
}
