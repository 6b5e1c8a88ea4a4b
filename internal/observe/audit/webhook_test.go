package audit

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A receiver takes what a webhook is told, and answers as it is told to.
type receiver struct {
	t      *testing.T
	answer func(attempt int) (status int, err error)

	mu       sync.Mutex
	attempts []time.Time
	ids      []string // of the messages, by attempt
	records  []Record
	last     *http.Request
	body     []byte
}

// RoundTrip implements http.RoundTripper.
func (r *receiver) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.attempts, r.ids = append(r.attempts, time.Now()), append(r.ids, req.Header.Get("webhook-id"))
	if at, err := strconv.ParseInt(req.Header.Get("webhook-timestamp"), 10, 64); err != nil || at != time.Now().Unix() {
		r.t.Errorf("timestamp: %d, %v", at, err)
	}
	status, err := r.answer(len(r.attempts))
	if err != nil {
		return nil, err
	}
	r.last, r.body = req, body
	if status == http.StatusOK {
		var told struct{ Records []Record }
		if err := json.Unmarshal(body, &told); err != nil {
			r.t.Errorf("%v in %s", err, body)
		}
		r.records = append(r.records, told.Records...)
	}
	return &http.Response{StatusCode: status, Header: http.Header{"Location": {"https://elsewhere.example"}}, Body: http.NoBody, Request: req}, nil
}

func (r *receiver) got() ([]Record, int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.records, len(r.attempts)
}

func always(status int) func(int) (int, error) { return func(int) (int, error) { return status, nil } }

func TestWebhookIsToldOfWhatItWantsSignedAndInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys := [][]byte{[]byte("canary-new"), []byte("canary-old")}
		r := &receiver{t: t, answer: always(http.StatusOK)}
		path := filepath.Join(t.TempDir(), "audit.log")
		l := reopen(t, path, &Options{Webhook: &Webhook{URL: "https://hooks.example/x?key=1", Keys: func() ([][]byte, error) { return keys, nil }, Transport: r}})
		for _, outcome := range []string{Denied, Answered, Failed, Cancelled, Refused, Unknown, ""} {
			l.Record(Event{Kind: Call, Outcome: outcome})
		}
		time.Sleep(time.Minute)
		got, n := r.got()
		if len(got) != 4 || n != 1 || got[0].Outcome != Denied || got[3].Outcome != Unknown || got[3].Hash == "" {
			t.Errorf("%d requests: %+v", n, got)
		}
		sign := func(key []byte) string {
			mac := hmac.New(sha256.New, key)
			fmt.Fprintf(mac, "%s.%s.%s", r.last.Header.Get("webhook-id"), r.last.Header.Get("webhook-timestamp"), r.body)
			return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
		}
		if got, want := r.last.Header.Get("webhook-signature"), sign(keys[0])+" "+sign(keys[1]); got != want {
			t.Errorf("signature %s, want %s", got, want)
		}
		first := r.last.Header.Get("webhook-id")
		l.Configure(&Options{Webhook: &Webhook{URL: "https://hooks.example/", Events: []string{SendDenied}, Transport: r}})
		l.Record(Event{Kind: Call, Outcome: Failed})
		l.Deny(Event{Code: 403})
		_ = l.Close() // does not wait for more
		if got, n := r.got(); len(got) != 5 || n != 2 || got[4].Kind != DeniedAtEndpoint {
			t.Errorf("%d requests: %+v", n, got)
		}
		if r.last.Header.Get(HeaderSignature) != "" {
			t.Error("there is no secret, and a signature")
		}
		if second := r.last.Header.Get("webhook-id"); first == "" || second == "" || first == second || strings.Contains(first, ".") {
			t.Errorf("the messages have the ids %q and %q", first, second)
		}
		if s := l.Status().Webhook; s.Sent != 5 || s.Dropped != 0 {
			t.Errorf("the status is %+v", s)
		}
	})
}

func TestWebhookIsTriedAgainAndThenGivenUp(t *testing.T) {
	for _, test := range []struct {
		name     string
		answer   func(int) (int, error)
		attempts int
		told     bool
	}{
		{"it is away for a while", func(n int) (int, error) {
			if n < 4 {
				return 0, errors.New("no route")
			}
			return http.StatusOK, nil
		}, 4, true},
		{"it is busy", func(n int) (int, error) {
			return map[bool]int{true: http.StatusTooManyRequests, false: http.StatusOK}[n == 1], nil
		}, 2, true},
		{"it fails for good", always(http.StatusInternalServerError), tellAttempts, false},
		{"it wants none of it", always(http.StatusNotFound), 1, false},
		{"it is elsewhere", always(http.StatusTemporaryRedirect), 1, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var said buffer
				r := &receiver{t: t, answer: test.answer}
				l := reopen(t, filepath.Join(t.TempDir(), "audit.log"), &Options{
					Webhook: &Webhook{URL: "https://hooks.example/canary", Transport: r}, Logger: slog.New(slog.NewTextHandler(&said, nil)),
				})
				l.Record(Event{Kind: Call, Outcome: Failed})
				time.Sleep(10 * time.Minute)
				got, n := r.got()
				s := l.Status()
				if n != test.attempts || (len(got) == 1) != test.told || (s.Webhook.Dropped == 1) == test.told || s.Failure != nil {
					t.Errorf("%d attempts, %d records, status %+v", n, len(got), s.Webhook)
				}
				if strings.Contains(said.String(), "canary") || strings.Count(said.String(), "\n") != int(s.Webhook.Dropped) {
					t.Errorf("it says %s", said.String())
				}
				if r.ids = slices.Compact(r.ids); len(r.ids) != 1 {
					t.Errorf("attempts have the ids %q", r.ids)
				}
				for i := 2; i < len(r.attempts); i++ {
					if a, b := r.attempts[i-1].Sub(r.attempts[i-2]), r.attempts[i].Sub(r.attempts[i-1]); b <= a {
						t.Errorf("waits of %v and %v", a, b)
					}
				}
			})
		})
	}
}

func TestWebhookThatHangsHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "audit.log")
		l := reopen(t, path, &Options{Webhook: &Webhook{URL: "https://hooks.example/", Transport: hanging{}}})
		began := time.Now()
		const events = 3 * maxTold
		for i := range events {
			l.Record(Event{Kind: Call, Outcome: Failed})
			if i%maxBatch == 0 {
				time.Sleep(2 * gatherTime)
			}
		}
		time.Sleep(2 * gatherTime)
		if s := l.Status(); s.Written != events || s.Webhook.Dropped < maxTold || s.Lost > 0 {
			t.Errorf("the status is %+v, %+v", s, s.Webhook)
		}
		_ = l.Close()
		if took := time.Since(began); took > lastTell+2*time.Second {
			t.Errorf("the end takes %v", took)
		}
	})
}

// hanging answers no request before that is given up.
type hanging struct{}

// RoundTrip implements http.RoundTripper.
func (hanging) RoundTrip(req *http.Request) (*http.Response, error) {
	<-req.Context().Done()
	return nil, req.Context().Err()
}

// The example of the reference implementation.
func TestSignaturesAreThoseOfStandardWebhooks(t *testing.T) {
	key, err := base64.StdEncoding.DecodeString("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		t.Fatal(err)
	}
	got := Sign(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", []byte(`{"test": 2432232314}`))
	if want := "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestWebhookWhoseSecretIsNotThereIsNotTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var known atomic.Bool
		keys := func() ([][]byte, error) {
			if !known.Load() {
				return nil, errors.New("no such secret")
			}
			return [][]byte{[]byte("s")}, nil
		}
		r := &receiver{t: t, answer: always(http.StatusOK)}
		var logged buffer
		l := reopen(t, filepath.Join(t.TempDir(), "audit.log"), &Options{Webhook: &Webhook{URL: "https://hooks.example/", Keys: keys, Transport: r}, Logger: slog.New(slog.NewTextHandler(&logged, nil))})
		if !strings.Contains(logged.String(), "no such secret") {
			t.Errorf("it is not logged at the start: %s", logged.String())
		}
		l.Record(Event{Kind: Call, Outcome: Failed})
		time.Sleep(5 * time.Second)
		if _, n := r.got(); n != 0 {
			t.Errorf("%d requests without a signature", n)
		}
		known.Store(true) // it comes late
		time.Sleep(5 * time.Minute)
		if got, n := r.got(); n != 1 || len(got) != 1 {
			t.Errorf("%d requests", n)
		}
	})
}
