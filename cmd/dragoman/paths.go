package main

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/gateway"
)

// taken are the paths that cannot be had for something else.
var taken = []string{
	gateway.MCPPath, gateway.SSEPath, gateway.MessagesPath, gateway.WSPath, gateway.CallPath,
	gateway.HealthPath, gateway.ReadyPath, gateway.StatusPath,
}

// paths leads requests at additional paths to where they belong.
type paths struct {
	http.Handler
	also map[string]string
}

// additional returns the paths that the settings name, each with the one that it
// stands for.
func (s *settings) additional() (map[string]string, error) {
	also := make(map[string]string)
	wanted := [][2]string{{s.mcpPath, gateway.MCPPath}, {s.ssePath, gateway.SSEPath}, {s.messagePath, gateway.MessagesPath}}
	if s.output == "ws" { // where supergateway has its socket
		wanted[2] = [2]string{cmp.Or(s.messagePath, "/message"), gateway.WSPath}
	}
	for _, path := range s.healthPaths {
		wanted = append(wanted, [2]string{path, gateway.HealthPath})
	}
	for _, p := range wanted {
		path, as := p[0], p[1]
		switch {
		case path == "" || path == as:
		case !strings.HasPrefix(path, "/") || strings.ContainsAny(path, "{} ?#"):
			return nil, fmt.Errorf("the path %q does not begin with a slash, or has characters that it may not have", path)
		case also[path] != "" || slices.Contains(taken, path) || strings.HasPrefix(path, gateway.CallPath+"/"):
			return nil, fmt.Errorf("the path %s is taken; choose another", path)
		default:
			also[path] = as
		}
	}
	return also, nil
}

// ServeHTTP implements http.Handler.
func (p *paths) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if as, ok := p.also[r.URL.Path]; ok {
		there, where := *r, *r.URL
		where.Path, where.RawPath = as, ""
		there.URL = &where
		r = &there
	}
	p.Handler.ServeHTTP(w, r)
}

// messages returns what clients of HTTP+SSE are told to send to: the path that the user
// knows. It is empty if that is found beside the stream.
func (s *settings) messages(prefix string) string {
	switch {
	case s.messagePath != "" && s.output != "ws":
		return prefix + s.messagePath
	case s.ssePath != "":
		return prefix + gateway.MessagesPath
	}
	return ""
}

// accepted returns what is accepted in Host and Origin because the settings name it, and
// the path of the public URL.
func (s *settings) accepted() (hosts, origins []string, prefix string, err error) {
	for _, o := range s.origins {
		if u, err := url.Parse(o); o != "*" && o != "none" && (err != nil || u.Scheme == "" || u.Host == "" || strings.Trim(u.Path, "/") != "") {
			return nil, nil, "", fmt.Errorf("--allow-origin %q is no origin: write it as https://app.example.com, without a path", o)
		}
	}
	if s.publicURL == "" {
		return nil, s.origins, "", nil
	}
	u, err := url.Parse(s.publicURL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.RawQuery != "" || u.User != nil {
		return nil, nil, "", errors.New("--public-url must look like https://host or https://host/path")
	}
	return []string{u.Hostname()}, append(s.origins, u.Scheme+"://"+u.Host), strings.TrimSuffix(u.Path, "/"), nil
}
