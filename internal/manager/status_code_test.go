package manager

import (
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/dragoman-mcp/dragoman/protocol"
)

func TestServerThatRefusesARequestIsStillThere(t *testing.T) {
	for status, away := range map[int]bool{
		http.StatusBadRequest: false, http.StatusUnauthorized: false, http.StatusNotFound: false,
		http.StatusTooManyRequests: false, http.StatusInternalServerError: false,
		http.StatusBadGateway: true, http.StatusServiceUnavailable: true, http.StatusGatewayTimeout: true,
	} {
		for _, err := range []error{&protocol.StatusError{Status: status}, fmt.Errorf("wrapped: %w", &protocol.StatusError{Status: status})} {
			if got := isUnreached(fmt.Errorf("a call: %w", err)); got != away {
				t.Errorf("%v means that the server is away: %v, want %v", err, got, away)
			}
		}
	}
	if isUnreached(errors.New("what the tool says")) {
		t.Error("a server that answers is taken for one that is away")
	}
}
