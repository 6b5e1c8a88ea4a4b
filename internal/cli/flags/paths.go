package flags

import (
	"cmp"
	"errors"
	"fmt"
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

// Additional returns the paths that the settings name, each with the one that it
// stands for.
func (s *Settings) Additional() (map[string]string, error) {
	also := make(map[string]string)
	wanted := [][2]string{{s.MCPPath, gateway.MCPPath}, {s.SSEPath, gateway.SSEPath}, {s.MessagePath, gateway.MessagesPath}}
	if s.Output == "ws" { // where supergateway has its socket
		wanted[2] = [2]string{cmp.Or(s.MessagePath, "/message"), gateway.WSPath}
	}
	for _, path := range s.HealthPaths {
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

// Messages returns what clients of HTTP+SSE are told to send to: the path that the user
// knows. It is empty if that is found beside the stream.
func (s *Settings) Messages(prefix string) string {
	switch {
	case s.MessagePath != "" && s.Output != "ws":
		return prefix + s.MessagePath
	case s.SSEPath != "":
		return prefix + gateway.MessagesPath
	}
	return ""
}

// Accepted returns what is accepted in Host and Origin because the settings name it, and
// the path of the public URL.
func (s *Settings) Accepted() (hosts, origins []string, prefix string, err error) {
	for _, o := range s.Origins {
		if u, err := url.Parse(o); o != "*" && o != "none" && (err != nil || u.Scheme == "" || u.Host == "" || strings.Trim(u.Path, "/") != "") {
			return nil, nil, "", fmt.Errorf("--allow-origin %q is no origin: write it as https://app.example.com, without a path", o)
		}
	}
	if s.PublicURL == "" {
		return nil, s.Origins, "", nil
	}
	u, err := url.Parse(s.PublicURL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.RawQuery != "" || u.User != nil {
		return nil, nil, "", errors.New("--public-url must look like https://host or https://host/path")
	}
	return []string{u.Hostname()}, append(s.Origins, u.Scheme+"://"+u.Host), strings.TrimSuffix(u.Path, "/"), nil
}
