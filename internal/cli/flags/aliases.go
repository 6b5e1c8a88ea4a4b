package flags

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/dragoman-mcp/dragoman/internal/target"
	"github.com/spf13/pflag"
)

// An alias is a flag of another program that we understand, or refuse in a sentence that says
// what to use. None is shown by --help.
type alias struct {
	name string
	bare string // what it means without a value, if it can be without
	set  func(s *Settings, value string) error
}

// A program is another one whose command lines we understand.
type program struct {
	name    string
	port    string // where it listens if nobody says otherwise
	aliases []alias
}

// runPrograms are those whose flags dragoman run knows, and connectPrograms those of dragoman
// connect. A flag that two have is in the first alone.
var (
	runPrograms     = []program{supergateway, npmProxy, pypiServer, pypiClient}
	connectPrograms = []program{mcpRemote, pypiClient}
)

var supergateway = program{"supergateway", "8000", []alias{
	{"stdio", "", func(s *Settings, v string) (err error) {
		s.Command, err = SplitCommand(v)
		return err
	}},
	{"sse", "", func(s *Settings, v string) error { return s.setURL(v, "sse-first") }},
	{"streamableHttp", "", func(s *Settings, v string) error { return s.setURL(v, "http-first") }},
	{"outputTransport", "", func(s *Settings, v string) error {
		s.Output = v
		return oneOf(v, "stdio", "sse", "ws", "streamableHttp")
	}},
	{"baseUrl", "", func(s *Settings, v string) error { s.PublicURL = v; return nil }},
	{"ssePath", "", func(s *Settings, v string) error { s.SSEPath = v; return nil }},
	{"messagePath", "", func(s *Settings, v string) error { s.MessagePath = v; return nil }},
	{"streamableHttpPath", "", func(s *Settings, v string) error { s.MCPPath = v; return nil }},
	{"healthEndpoint", "", func(s *Settings, v string) error { s.HealthPaths = append(s.HealthPaths, v); return nil }},
	{"stateful", "true", understood},
	{"sessionTimeout", "", func(s *Settings, v string) error { return inMilliseconds(&s.idle, v) }},
	{"oauth2Bearer", "", func(s *Settings, v string) error {
		s.moreHeaders = append(s.moreHeaders, "Authorization: Bearer "+v)
		return nil
	}},
	{"cors", "*", func(s *Settings, v string) error {
		switch {
		case v == "*":
			s.note("--cors without an origin lets the pages of every site use the server; name yours: --allow-origin https://app.example.com")
		case strings.HasPrefix(v, "/"):
			return errors.New("patterns are not understood; name the origins: --allow-origin https://app.example.com")
		}
		s.moreOrigins = append(s.moreOrigins, v)
		return nil
	}},
	{"protocolVersion", "", unused("--protocolVersion is not used: what the server speaks is found out")},
}}

// npmProxy is mcp-proxy from npm.
var npmProxy = program{"mcp-proxy from npm", "8080", []alias{
	{"server", "", func(s *Settings, v string) error {
		s.serverType = v
		return oneOf(v, "sse", "stream")
	}},
	{"endpoint", "", func(s *Settings, v string) error { s.endpoint = v; return nil }},
	{"sseEndpoint", "", func(s *Settings, v string) error { s.SSEPath = v; return nil }},
	{"streamEndpoint", "", func(s *Settings, v string) error { s.MCPPath = v; return nil }},
	{"upstreamProtocol", "", setEra},
	{"modern", "true", understood},
	{"no-modern", "true", unused("--no-modern is not used: clients of all revisions are served")},
	{"connectionTimeout", "", func(s *Settings, v string) error { return inMilliseconds(&s.DialTimeout, v) }},
	{"requestTimeout", "", func(s *Settings, v string) error { return inMilliseconds(&s.Timeout, v) }},
	{"gracefulShutdownTimeout", "", func(s *Settings, v string) error { return inMilliseconds(&s.Drain, v) }},
	{"sessionIdleTimeout", "", func(s *Settings, v string) error {
		err := inMilliseconds(&s.idle, v)
		if s.idle == 0 {
			s.idle = -1 // forever
		}
		return err
	}},
	{"keepAliveTimeout", "", unused("--keepAliveTimeout is not used: connections are kept open as long as clients want them")},
	{"maxBodySize", "", func(s *Settings, v string) (err error) {
		if s.MaxMessage, err = strconv.Atoi(v); s.MaxMessage == 0 {
			s.MaxMessage = -1 // no limit
		}
		return err
	}},
	{"eventStore", "true", understood},
	{"no-eventStore", "true", unused("--no-eventStore is not used: what a stream can be resumed from is in memory, and bounded")},
	{"eventStoreMaxEvents", "", unused("--eventStoreMaxEvents is not used: what a stream can be resumed from is in memory, and bounded")},
	{"corsAddAllowedHeader", "", unused("--corsAddAllowedHeader is not used: pages of the origins that --allow-origin names may send the headers that are needed")},
	{"shell", "true", refused("no shell is started; start it yourself: dragoman run -- sh -c '...'")},
	{"no-shell", "true", understood},
	{"apiKey", "", refused("clients send tokens as Authorization: Bearer TOKEN; make one by dragoman token new --name NAME --file FILE, and use --token-file FILE")},
	{"sslCert", "", func(s *Settings, v string) error { s.Listener.TLS.Cert = v; return nil }},
	{"sslKey", "", func(s *Settings, v string) error { s.Listener.TLS.Key = v; return nil }},
	{"sslCa", "", refused("to let in clients by their certificates, use --tls-client-ca FILE; to trust the authority of a server at a URL, use --ca-file FILE")},
	{"tunnel", "true", refused("there is no tunnel; have one of your choice lead to the address of --listen, with its URL in --public-url, and --token-file for who may come in")},
	{"tunnelSubdomain", "", refused("there is no tunnel; have one of your choice lead to the address of --listen, with its URL in --public-url")},
}}

// pypiServer is mcp-proxy from PyPI where it serves a command, with what it shares with others.
var pypiServer = program{"mcp-proxy from PyPI", "", []alias{
	{"port", "", setPort},
	{"sse-port", "", setPort},
	{"host", "", setHost},
	{"sse-host", "", setHost},
	{"stateless", "true", func(s *Settings, v string) error {
		if v == "true" {
			s.isolation = "request"
		}
		return nil
	}},
	{"no-stateless", "true", understood},
	{"pass-environment", "true", func(s *Settings, v string) error { s.allEnv = v == "true"; return nil }},
	{"no-pass-environment", "true", understood},
	{"expose-header", "", unused("--expose-header is not used: pages of allowed origins may read the headers that they need")},
	{"named-server", "", refused(`several servers need a file: {"mcpServers": {"NAME": {"command": "...", "args": [...]}}}, and dragoman serve FILE; each is at /servers/NAME/mcp and /servers/NAME/sse`)},
	{"named-server-config", "", refused("use dragoman serve FILE: it reads that file; each server is at /servers/NAME/mcp and /servers/NAME/sse")},
}}

// pypiClient is mcp-proxy from PyPI where it reaches a URL.
var pypiClient = program{"", "", []alias{
	{"headers", "", refused("a name and a value are expected: --headers NAME VALUE")}, // those with both are -H by now
	{"transport", "", func(s *Settings, v string) error {
		if order, ok := map[string]string{"sse": "sse-first", "streamablehttp": "http-first"}[v]; ok {
			v = order
		}
		s.Order = v
		return oneOf(v, target.Orders...)
	}},
	{"client-secret", "", func(s *Settings, v string) error {
		s.note("--client-secret can be read by others on this machine; --client-secret-file FILE cannot")
		s.SignIn.Auth.ClientSecret = v
		return nil
	}},
	{"token-url", "", func(s *Settings, v string) error {
		s.SignIn.credentials = true
		return noTokenURL("token-url")(s, v)
	}},
	{"username", "", func(s *Settings, v string) error { s.username = v; return nil }},
	{"password", "", func(s *Settings, v string) error { s.password = v; return nil }},
	{"digest", "true", refused("digest authentication is not supported; use a token: -H 'Authorization: Bearer TOKEN', or --server-token-file FILE")},
	{"verify-ssl", "true", func(s *Settings, v string) error {
		switch strings.ToLower(v) {
		case "1", "true", "yes", "on":
			return nil
		case "0", "false", "no", "off":
			return errVerify
		}
		s.SignIn.TLS.CA = v
		return nil
	}},
	{"no-verify-ssl", "true", func(*Settings, string) error { return errVerify }},
	{"no-debug", "true", understood},
}}

var mcpRemote = program{"mcp-remote", "", []alias{
	{"header-file", "", func(s *Settings, v string) error {
		lines, err := readHeaderFile(v)
		s.moreHeaders = append(s.moreHeaders, lines...)
		return err
	}},
	{"protocol", "", setEra},
	{"allow-http", "true", func(s *Settings, v string) error { s.allowHTTP = v == "true"; return nil }},
	{"headers-timeout", "", unused("--headers-timeout is not used: --timeout bounds a request")},
	{"body-timeout", "", unused("--body-timeout is not used: a stream may be silent for as long as it likes")},
	{"keep-alive", "true", unused("--keep-alive is not used: a connection that the server drops is opened again")},
	{"ping-interval", "", unused("--ping-interval is not used: a connection that the server drops is opened again")},
	{"ipv4", "true", unused("--ipv4 is not used: IPv4 is tried while IPv6 does not answer")},
	{"static-oauth-client-info", "", func(s *Settings, v string) error {
		var info struct {
			ID     string `json:"client_id"`
			Secret string `json:"client_secret"`
		}
		err := readInfo(v, &info)
		if err == nil {
			info.Secret, err = expand(info.Secret, os.LookupEnv)
		}
		s.SignIn.Auth.ClientID, s.SignIn.Auth.ClientSecret = info.ID, info.Secret
		return err
	}},
	{"static-oauth-client-metadata", "", func(s *Settings, v string) error {
		var info struct {
			Scope  string `json:"scope"`
			Method string `json:"token_endpoint_auth_method"`
		}
		err := readInfo(v, &info)
		s.SignIn.Auth.Scopes = append(s.SignIn.Auth.Scopes, strings.Fields(info.Scope)...)
		s.SignIn.Auth.ClientAuth = info.Method
		if err == nil && info.Method != "" {
			err = oneOf(info.Method, "none", "client_secret_basic", "client_secret_post", "private_key_jwt")
		}
		return err
	}},
	{"resource", "", func(s *Settings, v string) error { s.SignIn.Auth.Resource = v; return nil }},
	{"disable-resource-parameter", "true", func(s *Settings, v string) error {
		if v == "true" {
			s.SignIn.Auth.Resource = "none"
		}
		return nil
	}},
	{"authorize-param", "", func(s *Settings, v string) error {
		name, value, ok := strings.Cut(v, "=")
		if !ok || name == "" {
			return errors.New("name=value is expected")
		}
		if s.SignIn.Auth.Parameters == nil {
			s.SignIn.Auth.Parameters = make(map[string]string)
		}
		s.SignIn.Auth.Parameters[name] = value
		return nil
	}},
	{"token-endpoint", "", noTokenURL("token-endpoint")},
	{"host", "", func(s *Settings, v string) error { s.SignIn.Auth.CallbackHost = v; return nil }},
	{"callback-path", "", func(s *Settings, v string) error { s.SignIn.Auth.CallbackPath = v; return nil }},
	{"auth-success-url", "", unused("--auth-success-url is not used: the page says what to do next")},
	{"use-id-token", "true", refused("an ID token is for its client alone and is not sent to servers; have the authorization server issue access tokens for this one")},
	{"enable-proxy", "true", understood},    // that of the environment is always used
	{"disable-cookies", "true", understood}, // there are none
	{"silent", "true", func(s *Settings, v string) error {
		if v == "true" {
			s.logLevel = "none"
		}
		return nil
	}},
}}

// errVerify is the answer to whoever wants certificates not to be verified.
var errVerify = errors.New("certificates are always verified; name the authority of yours by --ca-file FILE, or the variable SSL_CERT_FILE")

// understood is for flags that say what is so anyway.
func understood(*Settings, string) error { return nil }

// unused is for flags that there is no need for here, which the user is told.
func unused(why string) func(*Settings, string) error {
	return func(s *Settings, _ string) error {
		s.note("%s", why)
		return nil
	}
}

// refused is for flags that are not understood.
func refused(why string) func(*Settings, string) error {
	return func(*Settings, string) error { return errors.New(why) }
}

func noTokenURL(flag string) func(*Settings, string) error {
	return unused("--" + flag + " is not used: the server says who issues its tokens; if it does not, auth.issuer in a file for dragoman serve does")
}

func inMilliseconds(to *time.Duration, value string) (err error) {
	*to, err = timeIn(time.Millisecond, value)
	return err
}

func setPort(s *Settings, value string) error {
	s.port = value
	if _, err := strconv.ParseUint(value, 10, 16); err != nil {
		return errors.New("a number up to 65535 is expected")
	}
	return nil
}

func setHost(s *Settings, value string) error {
	s.host = strings.Trim(value, "[]")
	return nil
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
func (s *Settings) setURL(url, order string) error {
	if s.URL != "" {
		return errors.New("another URL is named already")
	}
	s.URL, s.Order = url, order
	if !target.IsURL(url) {
		return errors.New("a URL is expected")
	}
	return nil
}

func setEra(s *Settings, value string) error {
	s.Era = value
	return oneOf(value, "auto", "legacy", "modern")
}

func oneOf(value string, choices ...string) error {
	if !slices.Contains(choices, value) {
		return fmt.Errorf("use %s", strings.Join(choices, ", "))
	}
	return nil
}

// addAliases adds the flags of other programs, also as kebab-case has them.
func (s *Settings) addAliases(f *pflag.FlagSet, programs []program) {
	ours := map[string]string{"logLevel": "log-level"} // the one of ours that is spelled otherwise there
	for _, p := range programs {
		for _, a := range p.aliases {
			ours[kebab(a.name)] = a.name
		}
	}
	f.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		return pflag.NormalizedName(cmp.Or(ours[name], name))
	})
	for i := range programs {
		for _, a := range programs[i].aliases {
			flag := f.VarPF(aliasValue{s, a, &programs[i]}, a.name, "", "")
			flag.Hidden, flag.NoOptDefVal = true, a.bare
		}
	}
}

// kebab returns aName as a-name.
func kebab(name string) string {
	var b strings.Builder
	for _, r := range name {
		if unicode.IsUpper(r) {
			b.WriteByte('-')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// settleAliases does what depends on several flags.
func (s *Settings) settleAliases(f *pflag.FlagSet) error {
	if (s.username == "") != (s.password == "") {
		return errors.New("--username and --password belong together; give both")
	}
	if s.username != "" {
		s.moreHeaders = append(s.moreHeaders, "Authorization: Basic "+base64.StdEncoding.EncodeToString([]byte(s.username+":"+s.password)))
	}
	s.Headers = append(s.Headers, s.moreHeaders...)
	s.Origins = append(s.Origins, s.moreOrigins...)
	if s.Output == "" && (f.Changed("sse") || f.Changed("streamableHttp")) {
		s.Output = "stdio"
	}
	switch {
	case s.endpoint == "":
	case s.serverType == "sse":
		s.SSEPath = s.endpoint
	default:
		s.MCPPath = s.endpoint
	}
	if s.like != nil && s.like.port != "" && s.port == "" && len(s.Listen) == 0 && s.Output != "stdio" {
		s.note("%s listens on port %s unless it is told otherwise, and this on %s; --port %s is what it was", s.like.name, s.like.port, defaultPort, s.like.port)
	}
	return nil
}

// An aliasValue makes an alias a pflag.Value.
type aliasValue struct {
	settings *Settings
	alias    alias
	program  *program
}

// Set implements pflag.Value.
func (v aliasValue) Set(value string) error {
	if v.settings.like == nil || v.settings.like.port == "" {
		v.settings.like = v.program
	}
	return v.alias.set(v.settings, value)
}

// String implements pflag.Value.
func (v aliasValue) String() string { return "" }

// Type implements pflag.Value.
func (v aliasValue) Type() string { return "string" }
