package auth

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/wire/httpserver"
)

func TestOthersMayVerifyTokens(t *testing.T) {
	revoked := false
	p := New(&Options{URL: "https://gw.example.com", Verifiers: []Verifier{Custom(func(_ context.Context, token string) (*Identity, error) {
		switch {
		case token == "known" && !revoked:
			return &Identity{Principal: "user:a@b", Credential: "sign-in", Scopes: []string{"read"}, Expires: time.Now().Add(time.Hour).Truncate(time.Hour)}, nil
		case token == "sibling":
			return &Identity{Principal: "user:a@b", Audience: []string{"https://other.example.com"}}, nil
		case token == "late":
			return nil, fmt.Errorf("%w: the disk is full", ErrUnavailable)
		case token == "known", token == "bad":
			return nil, errors.New("sign in again")
		}
		return nil, nil
	}), NewTokens([]Token{{Name: "x", Hash: sha256.Sum256([]byte("listed"))}})}}, often, nil)
	ask := func(token string) (func(func()) func(), int) {
		t.Helper()
		r := httptest.NewRequest(http.MethodPost, "https://gw.example.com/mcp", http.NoBody)
		r.Header.Set("Authorization", "Bearer "+token)
		c, err := p.Caller(r)
		if err == nil {
			return c.OnEnd, http.StatusOK
		}
		refusal, ok := errors.AsType[*httpserver.Refusal](err)
		if !ok {
			t.Fatal(err)
		}
		return nil, refusal.Status
	}
	for token, want := range map[string]int{"known": 200, "listed": 200, "sibling": 401, "late": 503, "bad": 401, "foreign": 401} {
		if _, got := ask(token); got != want {
			t.Errorf("%s: %d, want %d", token, got, want)
		}
	}
	onEnd, _ := ask("known")
	ended := make(chan struct{})
	defer onEnd(func() { close(ended) })()
	p.Doubt(sha256.Sum256([]byte("listed")), sha256.Sum256([]byte("nothing")))
	revoked = true
	p.Doubt(sha256.Sum256([]byte("known")))
	<-ended
	if _, got := ask("known"); got != http.StatusUnauthorized {
		t.Errorf("after it was revoked: %d", got)
	}
}
