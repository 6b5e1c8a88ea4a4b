package gatewaytest

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"time"
)

// A Status is what the owner is told of one server.
type Status struct {
	Name        string     `json:"name"`
	State       string     `json:"state"`
	Era         string     `json:"era"`
	Transport   string     `json:"transport"`
	Tools       int        `json:"tools"`
	Cached      bool       `json:"cached"`
	Restarts    int        `json:"restarts"`
	LastError   string     `json:"lastError"`
	LastStderr  string     `json:"lastStderr"`
	NextAttempt *time.Time `json:"nextAttempt"`
	InFlight    int        `json:"inFlight"`
	Waiting     int        `json:"waiting"`
}

// Control asks the gateway over its control socket, as "dragoman status" does. It
// returns the status and the body, or 0 and the error.
func (g *Gateway) Control(path string) (int, string) {
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	owner := &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			sockets, err := filepath.Glob(filepath.Join(g.own, "dragoman", "*.sock"))
			if err != nil || len(sockets) != 1 {
				return nil, fmt.Errorf("the control sockets are %q, error %w", sockets, err)
			}
			return new(net.Dialer).DialContext(ctx, "unix", sockets[0])
		},
		DisableKeepAlives: true,
	}}
	return fetch(ctx, owner, "http://gateway"+path)
}

// Status returns what the gateway tells its owner of its servers, by name.
func (g *Gateway) Status() map[string]Status {
	g.t.Helper()
	code, body := g.Control("/status")
	var page struct {
		Servers []Status `json:"servers"`
	}
	if err := json.Unmarshal([]byte(body), &page); code != http.StatusOK || err != nil {
		g.t.Fatalf("the status is %d %s: %v", code, body, err)
	}
	all := map[string]Status{}
	for _, s := range page.Servers {
		all[s.Name] = s
	}
	return all
}
