package audit

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/util/retry"
)

// What a webhook can be told of.
const (
	SendDenied = "denied" // what a rule has denied, and what was denied at the endpoint
	SendFailed = "failed" // errors, what was refused, and what has an unknown outcome
)

// Headers of what a webhook is sent, as Standard Webhooks names them.
const (
	HeaderID        = "Webhook-Id"        // of the message: that of a repeated request is the same
	HeaderTimestamp = "Webhook-Timestamp" // of the request, in seconds since 1970
	HeaderSignature = "Webhook-Signature" // by each key, with a space between them, see [Sign]
)

// A Webhook is a URL that is told of events.
type Webhook struct {
	URL    string
	Events []string // SendDenied and SendFailed; empty means both

	// Keys returns the keys that sign. It is called for each request. Without keys, or if it is nil, nothing is
	// signed.
	Keys func() ([][]byte, error)

	// Transport makes the requests. If nil, one of its own does.
	Transport http.RoundTripper
}

// A WebhookStatus says what was told.
type WebhookStatus struct {
	Sent    uint64 `json:"sent"`
	Dropped uint64 `json:"dropped,omitempty"`
	Error   string `json:"error,omitempty"` // of the last attempt, if that failed
}

const (
	maxTold      = 1024 // records that wait to be told
	maxTell      = 100  // records in one request
	tellDelay    = time.Second
	tellTimeout  = 10 * time.Second
	tellAttempts = 6
	lastTell     = 3 * time.Second // for what waits at the end
)

// tellBackoff is the wait between attempts.
var tellBackoff = retry.Backoff{Min: time.Second, Max: 30 * time.Second}

// A hook tells a webhook of records, on a goroutine of its own that begins with the first
// configuration that has one.
type hook struct {
	conf  atomic.Pointer[Webhook] // nil if there is none
	queue chan []byte
	ctx   context.Context // ends when there is no more time
	stop  context.CancelFunc
	ended chan struct{} // closed when no more records come
	group sync.WaitGroup

	mu      sync.Mutex
	started bool
	now     WebhookStatus
	said    bool // that something was dropped, since the last success
	log     *slog.Logger
}

func (h *hook) init() {
	h.queue, h.ended = make(chan []byte, maxTold), make(chan struct{})
	h.ctx, h.stop = context.WithCancel(context.Background())
}

// configure puts a webhook in the place of the one before.
func (h *hook) configure(w *Webhook, log *slog.Logger) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.log = log
	if w == nil {
		h.conf.Store(nil)
		return
	}
	own := *w
	if own.Keys != nil {
		if _, err := own.Keys(); err != nil {
			log.Warn("the requests of the audit webhook cannot be signed, and are not sent", "error", err)
		}
	}
	if own.Transport == nil {
		own.Transport = &http.Transport{Proxy: http.ProxyFromEnvironment, TLSHandshakeTimeout: tellTimeout, MaxIdleConns: 1, IdleConnTimeout: time.Minute}
	}
	if before := h.conf.Swap(&own); before != nil {
		closeIdle(before)
	}
	if !h.started {
		h.started = true
		h.group.Go(h.run) // ends with close
	}
}

func closeIdle(w *Webhook) {
	if t, ok := w.Transport.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
}

// wants reports whether the webhook is told of an event.
func (w *Webhook) wants(e *Event) bool {
	tell := ""
	switch e.Outcome {
	case Denied:
		tell = SendDenied
	case Failed, Refused, Unknown:
		tell = SendFailed
	default:
		return false
	}
	return len(w.Events) == 0 || slices.Contains(w.Events, tell)
}

// offer takes records: the last lines of text are those of events. It does not wait.
func (h *hook) offer(text []byte, events []Event) {
	w := h.conf.Load()
	if w == nil {
		return
	}
	var lines [][]byte
	for i := range slices.Backward(events) {
		text = text[:len(text)-1]
		start := bytes.LastIndexByte(text, '\n') + 1
		if w.wants(&events[i]) {
			lines = append(lines, bytes.Clone(text[start:]))
		}
		text = text[:start]
	}
	for _, line := range slices.Backward(lines) {
		select {
		case h.queue <- line:
		default:
			h.drop(1, errQueue)
		}
	}
}

// drop counts records that are not told. The log says so with the first of a row.
func (h *hook) drop(n int, err error) {
	h.mu.Lock()
	first := !h.said
	h.said = true
	h.now.Dropped += uint64(n)
	h.now.Error = err.Error()
	log := h.log
	h.mu.Unlock()
	if first {
		log.Warn("the audit webhook is not told of some events", "error", err)
	}
}

func (h *hook) status() *WebhookStatus {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.started {
		return nil
	}
	now := h.now
	return &now
}

// close tells what is waiting, for a while.
func (h *hook) close() {
	close(h.ended)
	t := time.AfterFunc(lastTell, h.stop)
	h.group.Wait()
	t.Stop()
	h.stop()
	if w := h.conf.Load(); w != nil {
		closeIdle(w)
	}
}

func (h *hook) run() {
	for {
		batch := h.gather()
		if len(batch) == 0 {
			return
		}
		w := h.conf.Load()
		if w == nil {
			h.drop(len(batch), errors.New("there is no webhook any more"))
			continue
		}
		if err := h.tell(w, batch); err != nil {
			h.drop(len(batch), err)
			continue
		}
		h.mu.Lock()
		h.now.Sent += uint64(len(batch))
		h.now.Error, h.said = "", false
		h.mu.Unlock()
	}
}

// gather waits for records, and a little longer for more. It returns none at the end.
func (h *hook) gather() (batch [][]byte) {
	var full <-chan time.Time
	ended := h.ended
	for len(batch) < maxTell {
		if ended == nil { // no more come
			select {
			case line := <-h.queue:
				batch = append(batch, line)
				continue
			default:
				return batch
			}
		}
		select {
		case line := <-h.queue:
			if batch == nil {
				full = time.After(tellDelay)
			}
			batch = append(batch, line)
		case <-full:
			return batch
		case <-ended:
			ended = nil
		}
	}
	return batch
}

// tell sends a batch, again and again if that may help.
func (h *hook) tell(w *Webhook, batch [][]byte) error {
	body := append([]byte(`{"records":[`), bytes.Join(batch, []byte(","))...)
	body = append(body, ']', '}')
	id := "msg_" + rand.Text()
	for failures := 1; ; failures++ {
		again, err := h.post(w, id, body)
		if err == nil || !again || failures == tellAttempts || h.ctx.Err() != nil {
			return err
		}
		h.mu.Lock()
		h.now.Error = err.Error()
		h.mu.Unlock()
		if retry.Sleep(h.ctx, tellBackoff.Wait(failures)) != nil {
			return err
		}
	}
}

// post makes one request. again says that another may succeed.
func (h *hook) post(w *Webhook, id string, body []byte) (again bool, err error) {
	ctx, cancel := context.WithTimeout(h.ctx, tellTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.URL, bytes.NewReader(body))
	if err != nil {
		return false, errors.New("webhook: the URL cannot be used") // which may hold a secret
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "dragoman")
	if err := w.sign(req, id, body, time.Now()); err != nil {
		return true, err
	}
	client := &http.Client{Transport: w.Transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err // as above
		}
		return true, fmt.Errorf("webhook: %w", err)
	}
	defer resp.Body.Close()
	_, _ = io.CopyN(io.Discard, resp.Body, 4096) // so that the connection can be used again
	if resp.StatusCode/100 == 2 {
		return false, nil
	}
	return resp.StatusCode/100 == 5 || resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode == http.StatusRequestTimeout,
		fmt.Errorf("webhook: it answers with status %d", resp.StatusCode)
}

// sign adds the headers that say which message a body is, and prove who sends it, and when.
func (w *Webhook) sign(req *http.Request, id string, body []byte, now time.Time) error {
	at := strconv.FormatInt(now.Unix(), 10)
	req.Header.Set(HeaderID, id)
	req.Header.Set(HeaderTimestamp, at)
	if w.Keys == nil {
		return nil
	}
	keys, err := w.Keys()
	if err != nil {
		return fmt.Errorf("webhook: %w", err)
	}
	var signatures []string
	for _, key := range keys {
		signatures = append(signatures, Sign(key, id, at, body))
	}
	if len(signatures) > 0 {
		req.Header.Set(HeaderSignature, strings.Join(signatures, " "))
	}
	return nil
}

// Sign returns the signature of a message: v1, and in base64 the HMAC-SHA256 of its id, its timestamp and its body,
// with dots between them.
func Sign(key []byte, id, timestamp string, body []byte) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + timestamp + "."))
	mac.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}
