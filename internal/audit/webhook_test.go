package audit

import (
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
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
	r.attempts = append(r.attempts, time.Now())
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
		dir := t.TempDir()
		secret := filepath.Join(dir, "secret")
		writeLines(t, secret, []byte("canary-secret\n"))
		r := &receiver{t: t, answer: always(http.StatusOK)}
		path := filepath.Join(dir, "audit.log")
		l := reopen(t, path, &Options{Webhook: &Webhook{URL: "https://hooks.example/x?key=1", SecretFile: secret, Transport: r}})
		for _, outcome := range []string{Denied, Answered, Failed, Cancelled, Refused, Unknown, ""} {
			l.Record(Event{Kind: Call, Outcome: outcome})
		}
		time.Sleep(time.Minute)
		got, n := r.got()
		if len(got) != 4 || n != 1 || got[0].Outcome != Denied || got[3].Outcome != Unknown || got[3].Hash == "" {
			t.Errorf("%d requests: %+v", n, got)
		}
		at, err := strconv.ParseInt(r.last.Header.Get(HeaderTimestamp), 10, 64)
		if err != nil || time.Since(time.Unix(at, 0)).Abs() > time.Minute {
			t.Errorf("timestamp: %d, %v", at, err)
		}
		if got, want := r.last.Header.Get(HeaderSignature), Sign([]byte("canary-secret"), r.last.Header.Get(HeaderTimestamp), r.body); got != want {
			t.Errorf("signature %s, want %s", got, want)
		}
		l.Configure(&Options{Webhook: &Webhook{URL: "https://hooks.example/", Events: []string{TellDenied}, Transport: r}})
		l.Record(Event{Kind: Call, Outcome: Failed})
		l.Deny(Event{Code: 403})
		_ = l.Close() // does not wait for more
		if got, n := r.got(); len(got) != 5 || n != 2 || got[4].Kind != DeniedAtDoor {
			t.Errorf("%d requests: %+v", n, got)
		}
		if r.last.Header.Get(HeaderSignature) != "" {
			t.Error("there is no secret, and a signature")
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

func TestWebhookWhoseSecretIsNotThereIsNotTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		secret := filepath.Join(t.TempDir(), "secret")
		r := &receiver{t: t, answer: always(http.StatusOK)}
		l := reopen(t, filepath.Join(t.TempDir(), "audit.log"), &Options{Webhook: &Webhook{URL: "https://hooks.example/", SecretFile: secret, Transport: r}})
		l.Record(Event{Kind: Call, Outcome: Failed})
		time.Sleep(5 * time.Second)
		if _, n := r.got(); n != 0 {
			t.Errorf("%d requests without a signature", n)
		}
		if err := os.WriteFile(secret, []byte("s"), 0o600); err != nil { // it comes late
			t.Fatal(err)
		}
		time.Sleep(5 * time.Minute)
		if got, n := r.got(); n != 1 || len(got) != 1 {
			t.Errorf("%d requests", n)
		}
	})
}
