package credential

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/util/fileutil"
	"github.com/dragoman-mcp/dragoman/internal/util/lazy"
	"github.com/dragoman-mcp/dragoman/internal/util/proc"
	"github.com/dragoman-mcp/dragoman/internal/util/redact"
	"github.com/dragoman-mcp/dragoman/internal/util/syncs"
)

const (
	// commandTime is how long a command may take, and pipeTime how long what it has
	// started may hold its output after that.
	commandTime = 10 * time.Second
	pipeTime    = time.Second

	// refusedPause is how long a command is not run again because the server refuses what
	// it prints: a server that refuses everything would have it run for every request.
	refusedPause = 10 * time.Second

	// maxEarly is how long before their end credentials are had again. Those that live for
	// less than ten times as long are when a tenth of their life is left.
	maxEarly = time.Minute

	// maxHeaders is how many headers a command may print.
	maxHeaders = 64
)

// A helper has what a command prints.
type helper struct {
	command []string
	limit   time.Duration         // of one run
	vet     func(*exec.Cmd) error // may be nil
	log     *slog.Logger

	ctx    context.Context // ends with close
	cancel context.CancelFunc
	busy   syncs.Group
	flight syncs.Flight[*value]

	mu      sync.Mutex
	renewed time.Time // when the command was last run because of a refusal
}

func newHelper(command []string, vet func(*exec.Cmd) error, log *slog.Logger) *helper {
	h := &helper{command: command, limit: commandTime, vet: vet, log: log}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	return h
}

// current returns what the command printed last, unless that has ended. However many want
// it, the command runs once.
func (h *helper) current(ctx context.Context) (*value, error) {
	if v, ok := h.flight.Peek(); ok && !v.stale.IsZero() && time.Now().After(v.stale) {
		h.flight.Forget(func(now *value) bool { return now == v })
	}
	return h.flight.Get(ctx, h.busy.Start, h.run)
}

// renew runs the command again, unless somebody has.
func (h *helper) renew(ctx context.Context, refused *value) (*value, error) {
	h.mu.Lock()
	if last, ok := h.flight.Peek(); ok && last == refused {
		if time.Since(h.renewed) < refusedPause {
			h.mu.Unlock()
			return refused, nil
		}
		h.renewed = time.Now()
		h.flight.Forget(func(now *value) bool { return now == refused })
	}
	h.mu.Unlock()
	return h.flight.Get(ctx, h.busy.Start, h.run)
}

func (h *helper) peek() *value {
	v, _ := h.flight.Peek()
	return v
}

// close ends the command, if it is running.
func (h *helper) close() {
	h.cancel()
	h.busy.Wait()
}

// run runs the command. It has our environment and no input.
func (h *helper) run() (*value, error) {
	ctx, cancel := context.WithTimeout(h.ctx, h.limit)
	defer cancel()
	var out limited
	errs := limited{drop: true}
	cmd := exec.CommandContext(ctx, h.command[0], h.command[1:]...)
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &errs, pipeTime
	ownGroup(cmd)
	err := cmd.Err
	if err == nil && h.vet != nil {
		cmd.Env = os.Environ()
		err = h.vet(cmd)
	}
	if err == nil {
		err = cmd.Run()
	}
	for line := range strings.Lines(string(errs.text)) {
		h.log.Debug("the command for tokens says", "command", h.name(), "stderr", redact.Text(strings.TrimSpace(line)))
	}
	switch {
	case h.ctx.Err() != nil:
		return nil, h.fail("was ended with us", "try again", h.ctx.Err())
	case ctx.Err() != nil:
		return nil, h.fail(fmt.Sprintf("takes longer than %v", h.limit), "it must not wait for anybody: run it by hand", ctx.Err())
	case out.over:
		return nil, h.fail(fmt.Sprintf("prints more than %d bytes", maxText), "it must print a token alone, or headers as JSON", err)
	case errors.Is(err, exec.ErrWaitDelay):
		// It has ended well. What it has started holds its output.
	case err != nil:
		if _, exited := errors.AsType[*exec.ExitError](err); exited {
			return nil, h.fail("fails with "+err.Error(), "run it by hand to see why", err)
		}
		if errors.Is(err, proc.ErrNotAllowed) || errors.Is(err, proc.ErrExposed) {
			return nil, h.fail("must not be started: "+err.Error(), proc.Advice(err), err)
		}
		return nil, h.fail("cannot be started: "+startReason(err), "check its path", err)
	}
	v, err := parse(out.text, time.Now())
	if err != nil {
		return nil, h.fail("prints something else: "+err.Error(), "run it by hand to see what", err)
	}
	return v, nil
}

func (h *helper) name() string { return filepath.Base(h.command[0]) }

func (h *helper) fail(what, advice string, err error) error {
	return &fault{fmt.Sprintf("the command for tokens (%s) %s; %s", h.name(), what, advice), err}
}

func startReason(err error) string {
	if e, ok := errors.AsType[*exec.Error](err); ok {
		err = e.Err
	}
	return fileutil.LoadError(err).Error()
}

// limited keeps what is written to it, up to maxText bytes. Then it takes no more, or drops it.
type limited struct {
	text       []byte
	drop, over bool
}

// Write implements io.Writer.
func (l *limited) Write(p []byte) (int, error) {
	switch fits := len(l.text)+len(p) <= maxText; {
	case !fits && l.drop:
		return len(p), nil
	case !fits:
		l.over = true
		return 0, errors.New("too much")
	}
	l.text = append(l.text, p...)
	return len(p), nil
}

// parse reads what a command has printed: a token; an object with the token or headers, and
// when they end; or an object of headers alone. Its errors repeat nothing of it.
func parse(text []byte, now time.Time) (*value, error) {
	text = bytes.TrimSpace(text)
	if !bytes.HasPrefix(text, []byte("{")) {
		return bearer(string(text))
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(text, &members) != nil {
		return nil, errors.New("it is no JSON object")
	}
	var o struct {
		Token     string            `json:"token"`
		Headers   map[string]string `json:"headers"`
		ExpiresAt time.Time         `json:"expiresAt"`
		ExpiresIn float64           `json:"expiresIn"`
	}
	if members["token"] == nil && members["headers"] == nil {
		if json.Unmarshal(text, &o.Headers) != nil {
			return nil, errors.New("the object has neither token nor headers, and not all of its values are strings")
		}
	} else if json.Unmarshal(text, &o) != nil {
		return nil, errors.New("token must be a string, headers an object of strings, expiresAt a time as in 2030-01-31T12:00:00Z, expiresIn a number of seconds")
	}
	v := &value{header: make(http.Header)}
	if o.Token != "" {
		var err error
		if v, err = bearer(o.Token); err != nil {
			return nil, err
		}
	}
	if err := v.add(o.Headers); err != nil {
		return nil, err
	}
	if o.ExpiresIn > 0 {
		o.ExpiresAt = now.Add(time.Duration(min(o.ExpiresIn, 1e9) * float64(time.Second)))
	}
	if !o.ExpiresAt.IsZero() {
		v.stale = o.ExpiresAt.Add(-min(maxEarly, max(0, o.ExpiresAt.Sub(now)/10)))
	}
	return v, nil
}

var (
	headerName  = lazy.Regexp("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")
	headerValue = lazy.Regexp("^[\t -~\u0080-\uffff]*$")

	// reserved are headers that belong to the request itself.
	reserved = []string{"Accept", "Connection", "Content-Length", "Content-Type", "Host", "Te", "Trailer", "Transfer-Encoding", "Upgrade"}
)

// add adds headers that a command has printed.
func (v *value) add(headers map[string]string) error {
	for name, text := range headers {
		key := http.CanonicalHeaderKey(name)
		switch {
		case !headerName().MatchString(name) || !headerValue().MatchString(text):
			return errors.New("there is a header that cannot be sent")
		case slices.Contains(reserved, key) || strings.HasPrefix(key, "Mcp-") || strings.HasPrefix(key, "Sec-"):
			return fmt.Errorf("the header %s is not for it to set", key)
		}
		v.header[key] = []string{text}
	}
	switch {
	case len(v.header) == 0:
		return errors.New("there is no token and no header")
	case len(v.header) > maxHeaders:
		return fmt.Errorf("there are more than %d headers", maxHeaders)
	}
	return nil
}
