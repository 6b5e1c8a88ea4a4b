package kit

import (
	"encoding/json"
	"net/http"
	"time"
)

// A Status is what /status says of one server.
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

// Status returns what the gateway says of its servers, by name.
func (g *Gateway) Status() map[string]Status {
	g.t.Helper()
	code, body := g.Get("/status")
	var page struct {
		Servers []Status `json:"servers"`
	}
	if err := json.Unmarshal([]byte(body), &page); code != http.StatusOK || err != nil {
		g.t.Fatalf("/status says %d %s: %v", code, body, err)
	}
	all := map[string]Status{}
	for _, s := range page.Servers {
		all[s.Name] = s
	}
	return all
}
