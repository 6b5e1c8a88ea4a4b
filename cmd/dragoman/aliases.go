package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/target"
	"github.com/spf13/pflag"
)

// An alias is a flag of another program that we understand. None is shown by
// --help.
type alias struct {
	name string
	bare string // what it means without a value, if it can be without
	set  func(s *settings, value string) error
}

// runAliases are the flags of supergateway, and of mcp-proxy from npm and PyPI.
var runAliases = []alias{
	// supergateway
	{"stdio", "", func(s *settings, v string) (err error) {
		s.command, err = splitCommand(v)
		return err
	}},
	{"sse", "", func(s *settings, v string) error { return s.setURL(v, "sse-first") }},
	{"streamableHttp", "", func(s *settings, v string) error { return s.setURL(v, "http-first") }},
	{"outputTransport", "", func(s *settings, v string) error {
		s.output = v
		return oneOf(v, "stdio", "sse", "ws", "streamableHttp")
	}},
	{"port", "", func(s *settings, v string) error {
		s.port = v
		_, err := strconv.ParseUint(v, 10, 16)
		return err
	}},
	{"host", "", func(s *settings, v string) error { s.host = strings.Trim(v, "[]"); return nil }},
	{"baseUrl", "", func(s *settings, v string) error { s.publicURL = v; return nil }},
	{"ssePath", "", func(s *settings, v string) error { s.ssePath = v; return nil }},
	{"messagePath", "", func(s *settings, v string) error { s.messagePath = v; return nil }},
	{"streamableHttpPath", "", func(s *settings, v string) error { s.mcpPath = v; return nil }},
	{"healthEndpoint", "", func(s *settings, v string) error { s.healthPath = v; return nil }},
	{"stateful", "true", func(*settings, string) error { return nil }},
	{"stateless", "true", func(s *settings, v string) error {
		if v == "true" {
			s.isolation = "request"
		}
		return nil
	}},
	{"sessionTimeout", "", func(s *settings, v string) (err error) {
		s.idle, err = timeIn(time.Millisecond, v)
		return err
	}},
	{"oauth2Bearer", "", func(s *settings, v string) error {
		s.moreHeaders = append(s.moreHeaders, "Authorization: Bearer "+v)
		return nil
	}},
	{"logLevel", "", func(s *settings, v string) error {
		s.logLevel = v
		return oneOf(v, "debug", "info", "none")
	}},
	{"cors", "*", func(s *settings, v string) error {
		switch {
		case v == "*":
			s.note("--cors without an origin lets the pages of every site use the server; name yours: --allow-origin https://app.example.com")
		case strings.HasPrefix(v, "/"):
			return errors.New("patterns are not understood; name the origins")
		}
		s.moreOrigins = append(s.moreOrigins, v)
		return nil
	}},
	{"protocolVersion", "", func(s *settings, _ string) error {
		s.note("--protocolVersion is not used: what the server speaks is found out")
		return nil
	}},

	// mcp-proxy from npm
	{"server", "", func(s *settings, v string) error {
		s.serverType = v
		return oneOf(v, "sse", "stream")
	}},
	{"endpoint", "", func(s *settings, v string) error { s.endpoint = v; return nil }},
	{"sseEndpoint", "", func(s *settings, v string) error { s.ssePath = v; return nil }},
	{"streamEndpoint", "", func(s *settings, v string) error { s.mcpPath = v; return nil }},
	{"upstreamProtocol", "", setEra},
	{"connectionTimeout", "", func(s *settings, v string) (err error) {
		s.dialTimeout, err = timeIn(time.Millisecond, v)
		return err
	}},
	{"requestTimeout", "", func(s *settings, v string) (err error) {
		s.timeout, err = timeIn(time.Millisecond, v)
		return err
	}},
	{"sessionIdleTimeout", "", func(s *settings, v string) (err error) {
		s.idle, err = timeIn(time.Millisecond, v)
		return err
	}},
	{"maxBodySize", "", func(s *settings, v string) (err error) {
		s.maxMessage, err = strconv.Atoi(v)
		return err
	}},
	{"no-eventStore", "true", func(s *settings, _ string) error {
		s.note("--no-eventStore is not used: what a stream can be resumed from is in memory, and bounded")
		return nil
	}},
	{"eventStoreMaxEvents", "", func(s *settings, _ string) error {
		s.note("--eventStoreMaxEvents is not used: what a stream can be resumed from is in memory, and bounded")
		return nil
	}},
	{"shell", "true", func(*settings, string) error {
		return errors.New("no shell is started; start it yourself: dragoman run -- sh -c '...'")
	}},

	// mcp-proxy from PyPI
	{"pass-environment", "true", func(s *settings, v string) error { s.allEnv = v == "true"; return nil }},
	{"transport", "", func(s *settings, v string) error {
		s.order = map[string]string{"sse": "sse-first", "streamablehttp": "http-first"}[v]
		return oneOf(v, "sse", "streamablehttp")
	}},
	{"no-verify-ssl", "true", func(*settings, string) error {
		return errors.New("certificates are always verified; have yours trusted, for instance by the variable SSL_CERT_FILE")
	}},
}

// connectAliases are the flags of mcp-remote.
var connectAliases = []alias{
	{"header-file", "", func(s *settings, v string) error {
		lines, err := readHeaderFile(v)
		s.moreHeaders = append(s.moreHeaders, lines...)
		return err
	}},
	{"transport", "", func(s *settings, v string) error { s.order = v; return oneOf(v, target.Orders...) }},
	{"protocol", "", setEra},
	{"allow-http", "true", func(s *settings, v string) error { s.allowHTTP = v == "true"; return nil }},
	{"connect-timeout", "", func(s *settings, v string) (err error) {
		s.dialTimeout, err = timeIn(time.Second, v)
		return err
	}},
	{"static-oauth-client-info", "", func(s *settings, v string) error {
		var info struct {
			ID     string `json:"client_id"`
			Secret string `json:"client_secret"`
		}
		err := readInfo(v, &info)
		s.signIn.auth.ClientID, s.signIn.auth.ClientSecret = info.ID, info.Secret
		return err
	}},
	{"static-oauth-client-metadata", "", func(s *settings, v string) error {
		var info struct {
			Scope string `json:"scope"`
		}
		err := readInfo(v, &info)
		s.signIn.auth.Scopes = append(s.signIn.auth.Scopes, strings.Fields(info.Scope)...)
		return err
	}},
	{"resource", "", func(s *settings, v string) error { s.signIn.auth.Resource = v; return nil }},
	{"disable-resource-parameter", "true", func(s *settings, v string) error {
		if v == "true" {
			s.signIn.auth.Resource = "none"
		}
		return nil
	}},
	{"authorize-param", "", func(s *settings, v string) error {
		name, value, ok := strings.Cut(v, "=")
		if !ok || name == "" {
			return errors.New("name=value is expected")
		}
		if s.signIn.auth.Parameters == nil {
			s.signIn.auth.Parameters = make(map[string]string)
		}
		s.signIn.auth.Parameters[name] = value
		return nil
	}},
	{"host", "", func(s *settings, v string) error { s.signIn.auth.CallbackHost = v; return nil }},
	{"callback-path", "", func(s *settings, v string) error { s.signIn.auth.CallbackPath = v; return nil }},
	{"auth-success-url", "", func(s *settings, _ string) error {
		s.note("--auth-success-url is not used: the page says what to do next")
		return nil
	}},
	{"use-id-token", "true", func(*settings, string) error {
		return errors.New("an ID token is for its client alone and is not sent to servers; have the authorization server issue access tokens for this one")
	}},
	{"enable-proxy", "true", func(*settings, string) error { return nil }},    // that of the environment is always used
	{"disable-cookies", "true", func(*settings, string) error { return nil }}, // there are none
	{"silent", "true", func(s *settings, v string) error {
		if v == "true" {
			s.logLevel = "none"
		}
		return nil
	}},
}

// readInfo reads JSON that is given itself, or as @ and the name of a file.
func readInfo(text string, into any) error {
	data := []byte(text)
	if name, ok := strings.CutPrefix(text, "@"); ok {
		var err error
		if data, err = os.ReadFile(name); err != nil {
			return err
		}
	}
	if json.Unmarshal(data, into) != nil {
		return errors.New("JSON is expected, or @ and the name of a file with JSON") // what is there may be a secret
	}
	return nil
}

// setURL names the server by a flag that has it served on standard input and
// output, unless another says otherwise.
func (s *settings) setURL(url, order string) error {
	if s.url != "" {
		return errors.New("another URL is named already")
	}
	s.url, s.order = url, order
	if !target.IsURL(url) {
		return errors.New("a URL is expected")
	}
	return nil
}

func setEra(s *settings, value string) error {
	s.era = value
	return oneOf(value, "auto", "legacy", "modern")
}

func oneOf(value string, choices ...string) error {
	if !slices.Contains(choices, value) {
		return fmt.Errorf("use %s", strings.Join(choices, ", "))
	}
	return nil
}

// addAliases adds the flags of a table.
func (s *settings) addAliases(f *pflag.FlagSet, table []alias) {
	for _, a := range table {
		flag := f.VarPF(aliasValue{s, a}, a.name, "", "")
		flag.Hidden, flag.NoOptDefVal = true, a.bare
	}
}

// settleAliases does what depends on several flags.
func (s *settings) settleAliases(f *pflag.FlagSet) {
	s.headers = append(s.headers, s.moreHeaders...)
	s.origins = append(s.origins, s.moreOrigins...)
	if s.output == "" && (f.Changed("sse") || f.Changed("streamableHttp")) {
		s.output = "stdio"
	}
	switch {
	case s.endpoint == "":
	case s.serverType == "sse":
		s.ssePath = s.endpoint
	default:
		s.mcpPath = s.endpoint
	}
}

// An aliasValue makes an alias a pflag.Value.
type aliasValue struct {
	settings *settings
	alias    alias
}

func (v aliasValue) Set(value string) error { return v.alias.set(v.settings, value) }
func (v aliasValue) String() string         { return "" }
func (v aliasValue) Type() string           { return "string" }

// joinOptional writes --cors and a value behind it as one argument, as those who
// know the flag from elsewhere do not. Where the server is not named by a flag,
// what follows may be the server.
func joinOptional(args []string) []string {
	ours := args
	if i := slices.Index(args, "--"); i >= 0 {
		ours = args[:i]
	}
	named := slices.ContainsFunc(ours, func(arg string) bool {
		name, _, _ := strings.Cut(arg, "=")
		return name == "--stdio" || name == "--sse" || name == "--streamableHttp"
	})
	i := slices.Index(ours, "--cors")
	if !named || i < 0 || i+1 >= len(ours) || strings.HasPrefix(ours[i+1], "-") {
		return args
	}
	return slices.Concat(args[:i], []string{args[i] + "=" + args[i+1]}, args[i+2:])
}
