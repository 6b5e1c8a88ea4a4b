package config

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
)

// note reports something about a value of the merged file.
func (l *loader) note(path, message, hint string, bad bool) {
	s, ok := l.spots[path]
	if !ok {
		return
	}
	at := s.at
	if s.node.scalar() {
		at = s.node.at
	}
	if bad && slices.ContainsFunc(l.log.findings, func(f finding) bool { return f.bad && f.src == s.src && f.at == at }) {
		return // it has no value because of what was found there before
	}
	l.log.add(finding{src: s.src, at: at, message: message, hint: hint, bad: bad})
}

// checkGroups checks groups against the servers of all files.
func (l *loader) checkGroups() {
	all := sorted(l.seen)
	paths := map[string]string{}
	for _, name := range sorted(l.file.Groups) {
		g, path := l.file.Groups[name], "groups."+name
		if !goodName.MatchString(name) {
			l.note(path, fmt.Sprintf("%q cannot be the name of a group", clip(name)), "use 1 to 64 of the characters A-Z a-z 0-9 _ . -", true)
		}
		if g == nil || len(g.Servers) == 0 {
			l.note(path, path+" has no servers", "", true)
			continue
		}
		for i, server := range g.Servers {
			at := fmt.Sprintf("%s.servers[%d]", path, i)
			switch {
			case !l.seen[server]:
				l.note(at, fmt.Sprintf("%s: there is no server %q", path, clip(server)), didYouMean(server, all), true)
			case slices.Contains(g.Servers[:i], server):
				l.note(at, fmt.Sprintf("%s names the server %q twice", path, server), "", true)
			}
		}
		if g.Path == "" {
			continue
		}
		switch {
		case !strings.HasPrefix(g.Path, "/") || strings.ContainsAny(g.Path, "?# {}"):
			l.note(path+".path", fmt.Sprintf("%s.path: %q is no path", path, clip(g.Path)), "begin with / and leave out ? and #", true)
		case paths[g.Path] != "":
			l.note(path+".path", fmt.Sprintf("%s.path is that of %s", path, paths[g.Path]), "", true)
		}
		paths[g.Path] = path
	}
}

// checkListen checks the addresses.
func (l *loader) checkListen() {
	taken := map[string]bool{}
	for i := range l.file.Listen {
		e, path := &l.file.Listen[i], fmt.Sprintf("listen[%d]", i)
		exposed, plain, wrong := readAddress(e.Address)
		switch {
		case wrong != "":
			l.note(path+".address", fmt.Sprintf("%s: %q %s", path, clip(e.Address), wrong), "write HOST:PORT, http+unix:PATH, tcp:HOST:PORT, unix:PATH or stdio", true)
			if e.Address == "" {
				l.note(path, path+" has no address", "write HOST:PORT, http+unix:PATH, tcp:HOST:PORT, unix:PATH or stdio", true)
			}
			continue
		case taken[e.Address] && !strings.HasSuffix(e.Address, ":0"):
			l.note(path+".address", fmt.Sprintf("%s: %s is listened on already", path, e.Address), "", true)
		case exposed && !e.Auth.given() && e.TLS.ClientCA == "":
			l.note(path+".address", fmt.Sprintf("%s: other machines can reach %s, and anybody there may come in", path, e.Address),
				"give auth.tokens, or listen on 127.0.0.1", false)
		}
		taken[e.Address] = true
		if plain && (e.TLS != TLS{} || e.Auth.given()) {
			l.note(path+".address", fmt.Sprintf("%s: tls and auth are for addresses that speak HTTP", path), "write HOST:PORT or http+unix:PATH", true)
		}
		if (e.TLS.Cert == "") != (e.TLS.Key == "") || e.TLS.ClientCA != "" && e.TLS.Cert == "" {
			l.note(path+".tls", path+".tls needs both cert and key", "", true)
		}
		for j, token := range e.Auth.Tokens {
			if token == "" || strings.ContainsAny(token, " \r\n\t\x00") {
				l.note(fmt.Sprintf("%s.auth.tokens[%d]", path, j), path+": a token is empty or has white space", "", true)
			}
		}
	}
}

// readAddress looks at an address: whether other machines can reach it, whether it
// carries messages without HTTP, and what is wrong with it.
func readAddress(address string) (exposed, plain bool, wrong string) {
	scheme, rest, _ := strings.Cut(address, ":")
	switch {
	case address == "stdio":
		return false, true, ""
	case scheme == "unix", scheme == "http+unix":
		if strings.TrimPrefix(rest, "//") == "" {
			return false, false, "has no path"
		}
		return false, scheme == "unix", ""
	case scheme == "tcp":
		address, plain = strings.TrimPrefix(rest, "//"), true
	case strings.HasPrefix(rest, "//"):
		return false, false, "is a URL and no address"
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return false, plain, "is no address"
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n > 65535 {
		return false, plain, "has no port from 0 to 65535"
	}
	ip := net.ParseIP(host)
	return host != "localhost" && (ip == nil || !ip.IsLoopback()), plain, ""
}
