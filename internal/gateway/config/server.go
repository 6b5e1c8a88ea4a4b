package config

import (
	"net/url"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/util/limit"
	"github.com/dragoman-mcp/dragoman/internal/util/pattern"
	"github.com/dragoman-mcp/dragoman/internal/util/proc"
)

// A Server is a server that we start or reach. It has a command or a URL.
type Server struct {
	Name string

	Command           string            `key:"command" only:"command" doc:"Program to start. No shell is used. A relative path with a separator starts at cwd, or else at the directory of the file. A name is looked up on PATH when the file is read. See processes.md."`
	Args              []string          `key:"args" only:"command" doc:"Its arguments, passed on as they are."`
	Env               map[string]string `key:"env" only:"command" doc:"Variables that are added to its environment."`
	EnvFile           string            `key:"envFile" path:"true" only:"command" doc:"File with further variables, NAME=value in each line. Those in env win."`
	Inherit           []string          `key:"inherit" only:"command" doc:"Variables of our own environment that it gets beside those that programs, installers and networks need (PATH, HOME, LANG, proxies, certificates and the like; see processes.md). \"*\" means all."`
	Cwd               string            `key:"cwd" path:"true" only:"command" doc:"Its working directory." default:"ours"`
	User              string            `key:"user" only:"command" doc:"Who it runs as: name, name:group, or numbers in their place. Only root can change that, and not on Windows." default:"who started us"`
	Limits            ChildLimits       `key:"limits" only:"command" doc:"What its processes may use (Linux)."`
	Sandbox           *Sandbox          `key:"sandbox" only:"command" doc:"What it can reach of the machine (Linux). See processes.md." default:"all that its user can"`
	Restart           Restart           `key:"restart" only:"command" doc:"When to give up on a program that keeps ending."`
	URL               string            `key:"url" only:"url" doc:"Where the server is: http, https, ws, wss, tcp:HOST:PORT, unix:PATH, or unix:///PATH for HTTP on a Unix socket."`
	Headers           map[string]string `key:"headers" only:"url" doc:"HTTP headers that are sent with every request."`
	Auth              ServerAuth        `key:"auth" only:"url" doc:"How we sign in to a server that wants that (OAuth), or where its token comes from. Not used if headers have Authorization."`
	TLS               ServerTLS         `key:"tls" only:"url" doc:"Certificates, of the server's authority and ours. They are used with its authorization servers, too."`
	Proxy             string            `key:"proxy" only:"url" doc:"Proxy through which the server and its authorization servers are reached: http, https or socks5 URL, or none." default:"that of the environment"`
	PassHeaders       map[string]string `key:"passHeaders" only:"url" doc:"Headers of the caller that are passed on: the caller's name of a header, and the server's. Not Host, Cookie, and headers of the connection or the body, such as Connection and Content-Length."`
	PassEnv           map[string]string `key:"passEnv" only:"command" doc:"Headers of the caller that become variables of the program: the caller's name of a header, and the variable. Not with isolation shared."`
	Transport         Transport         `key:"transport" doc:"How the server is spoken to. auto means stdio for a command; a URL says it by its scheme, and with http it is found out." enum:"auto|stdio|http|sse|ws|tcp|unix" default:"auto"`
	Era               string            `key:"era" doc:"Era of the protocol that it speaks; auto finds out." enum:"auto|legacy|modern" default:"auto"`
	Framing           string            `key:"framing" doc:"How messages are told apart on a stream." enum:"auto|lines|content-length" default:"auto"`
	Isolation         string            `key:"isolation" doc:"Who shares a session with the server, and so its process: nobody but the requests of a client without sessions, all that one client does, everybody, or not even two requests. A server that everybody shares can ask nobody anything." enum:"session|client|shared|request" default:"session"`
	Pool              int               `key:"pool" doc:"Sessions with the server that are kept open for who comes next." default:"0"`
	Sessions          int               `key:"sessions" doc:"Sessions with the server, and so its processes, that there may be in all. At the limit one that nobody uses is closed, and its client told; without one, requests wait for 10 s." default:"1024" limit:"one that nobody uses is closed; else −31004 after 10 s"`
	SessionsPerClient int               `key:"sessionsPerClient" doc:"Sessions with the server that one client may have." default:"256" limit:"the same"`
	IdleSession       time.Duration     `key:"idleSession" none:"forever" doc:"How long a session with the server stays open that nobody uses. The sessions of a client's session end with that." default:"5m" limit:"it is closed"`
	Lazy              bool              `key:"lazy" doc:"Start or dial it when it is first asked." default:"false"`
	Disabled          bool              `key:"disabled" doc:"Leave it out." default:"false"`
	Timeout           time.Duration     `key:"timeout" none:"forever" doc:"How long a request may take, reset by each progress message." default:"1h" limit:"−31002"`
	ConnectTimeout    time.Duration     `key:"connectTimeout" doc:"How long it may take to start or to be reached. 5m if its command may have to install it first, as npx, uvx and docker do." default:"60s" limit:"−31001"`
	IdleStop          time.Duration     `key:"idleStop" none:"never" doc:"How long it may be unused before it is stopped." default:"none" limit:"it is stopped, and started when it is asked"`
	Rate              limit.Rate        `key:"rate" doc:"How many requests to it all callers together may make in which time: calls of tools and what else it works for, no lists." default:"no limit" limit:"503, −31004"`
	Burst             int               `key:"burst" doc:"How many of them may come at once." default:"the number in rate" limit:"see rate"`
	Calls             int               `key:"calls" doc:"Requests to it that may be in flight." default:"128" limit:"others wait for 1 s, then 503, −31004"`
	Queue             int               `key:"queue" doc:"Requests that may wait while it has that many, or is away." default:"64" limit:"503, −31004"`
	Suspended         int               `key:"suspended" doc:"Calls of one client that may wait for its own answers to questions of the server." default:"64" limit:"the question gets an error"`
	Retry             Retry             `key:"retry" doc:"How a lost server is tried again."`
	Health            Health            `key:"health" doc:"How it is looked after."`
	Tools             Tools             `key:"tools" doc:"Which of its tools are offered, and how."`
	Prompts           Prompts           `key:"prompts" doc:"Which of its prompts are offered."`
	Resources         Resources         `key:"resources" doc:"Which of its resources and resource templates are offered."`

	// Program is the absolute path of Command, or empty if that was not found when
	// the file was read.
	Program string

	// where is how people are told where the server is; it has no secrets.
	where string

	policy     *proc.Policy // nil if the server is not from a file
	searchPath string       // where its programs are looked for
}

// ChildLimits is what the processes of a server may use. Zero means no limit.
type ChildLimits struct {
	Memory Size          `key:"memory" doc:"Address space of each process. Runtimes that reserve more than they use, such as Node.js, need a generous one." limit:"what the program makes of that"`
	Files  int           `key:"files" doc:"Open files of each process." limit:"what the program makes of that"`
	CPU    time.Duration `key:"cpu" doc:"Processor time of each process; it is killed when that is used up." limit:"it is killed"`

	Processes int `key:"processes" doc:"Processes and threads of its user, counted over all that this user runs. It does not bind root." limit:"no more are made"`
}

// A Sandbox is what a server can reach of the machine.
type Sandbox struct {
	Read     []string `key:"read" path:"true" doc:"Files and directories that it may read and execute, beside those of the system, its program and its cwd."`
	Write    []string `key:"write" path:"true" doc:"Files and directories that it may also change."`
	Network  *bool    `key:"network" doc:"Whether it may make sockets." default:"true"`
	Optional bool     `key:"optional" doc:"Start it although the kernel cannot do all of this, with as much as it can." default:"false"`
}

// ServerAuth says how we sign in to a server.
type ServerAuth struct {
	SignIn       string            `key:"signIn" doc:"Who signs in: one sign-in for everybody, each caller its own, or nobody. Callers are told apart by who they have proven to be; the others are sent without a token. The browser of a caller who is a user of auth.provider comes back to auth.url." enum:"shared|caller|none" default:"shared"`
	TokenFile    string            `key:"tokenFile" path:"true" doc:"File with a token that is sent as Authorization: Bearer, in place of a sign-in. It is read again when it changes."`
	Command      []string          `key:"command" doc:"Program and arguments that print a token or headers, in place of a sign-in. No shell is used."`
	Grant        string            `key:"grant" doc:"How tokens are had: in a browser on this machine, in any browser with a code, by the client itself, or for a token that somebody else has issued." enum:"browser|device-code|client-credentials|jwt-bearer" default:"browser; where none can be opened, device-code if the authorization server has that"`
	ClientID     string            `key:"clientId" doc:"Client that is registered with the authorization server." default:"we register by ourselves"`
	ClientSecret string            `key:"clientSecret" doc:"Its secret, better as ${file:PATH} or ${VARIABLE}."`
	ClientKey    string            `key:"clientKey" path:"true" doc:"File with its private key, in PEM, in place of a secret."`
	KeyID        string            `key:"keyId" doc:"Name of that key."`
	Algorithm    string            `key:"algorithm" doc:"What it signs with, as in ES256." default:"what fits the key"`
	ClientAuth   string            `key:"clientAuth" doc:"How the client proves who it is." enum:"none|client_secret_basic|client_secret_post|private_key_jwt" default:"as the authorization server wants it"`
	MetadataURL  string            `key:"clientMetadata" doc:"https URL of a client id metadata document, in place of a registration."`
	Scopes       []string          `key:"scopes" doc:"What to ask for." default:"what the server names"`
	Issuer       string            `key:"issuer" doc:"Authorization server." default:"the one that the server names"`
	Resource     string            `key:"resource" doc:"What tokens are for; none leaves that out." default:"what the server publishes"`
	Assertion    string            `key:"assertion" path:"true" doc:"File with the token that is exchanged, for jwt-bearer. It is read again each time."`
	Exchange     Exchange          `key:"exchange" doc:"Identity provider that makes the assertion of it first, as companies do that decide in one place who may use what."`
	CallbackHost string            `key:"callbackHost" doc:"Host that the browser comes back to: 127.0.0.1, localhost or ::1." default:"127.0.0.1"`
	CallbackPort int               `key:"callbackPort" doc:"Port that it comes back to, for clients that are registered with one." default:"a free one"`
	CallbackPath string            `key:"callbackPath" doc:"Path that it comes back to." default:"/callback"`
	Parameters   map[string]string `key:"parameters" doc:"Further parameters of the authorization request."`
}

// An Exchange is an identity provider that exchanges tokens.
type Exchange struct {
	TokenEndpoint string `key:"tokenEndpoint" doc:"URL of its token endpoint."`
	ClientID      string `key:"clientId" doc:"Client that is registered there."`
	ClientSecret  string `key:"clientSecret" doc:"Its secret, if it has one."`
}

// ServerTLS says whom we trust at a server, and who we are there.
type ServerTLS struct {
	CA   string `key:"ca" path:"true" doc:"File with certificates of authorities that are trusted beside the system's, in PEM."`
	Cert string `key:"cert" path:"true" doc:"File with our client certificate, in PEM, for mutual TLS. It is read again when it changes."`
	Key  string `key:"key" path:"true" doc:"File with the private key of that, in PEM." default:"the key in cert"`
}

// A Retry says how a lost server is tried again.
type Retry struct {
	Min      time.Duration `key:"min" doc:"Wait before the first attempt; it doubles with each." default:"250ms, 1s of a URL" limit:"it is tried"`
	Max      time.Duration `key:"max" doc:"Longest wait." default:"30s, 10s of a URL" limit:"it is tried"`
	Attempts int           `key:"attempts" doc:"Attempts that a request waits for." default:"3" limit:"−31001"`
}

// A Restart says when to give up on a program that keeps ending.
type Restart struct {
	Max    int           `key:"max" doc:"Starts within the window before it is left alone." default:"5" limit:"−31001 for 30 s"`
	Window time.Duration `key:"window" doc:"The window." default:"60s" limit:"see max"`
}

// A Health says how a server is looked after.
type Health struct {
	Interval  time.Duration `key:"interval" none:"not at all" doc:"How often it is asked whether it is there, while nobody else asks." default:"30s" limit:"it is asked"`
	Threshold int           `key:"threshold" doc:"Failures in a row after which it counts as lost." default:"3" limit:"it is connected again"`
}

// Tools says which tools of a server are offered, and how. Names are the server's.
type Tools struct {
	Include  []string                 `key:"include" doc:"Tools that are offered; * and ? stand for any characters." default:"all"`
	Exclude  []string                 `key:"exclude" doc:"Tools that are not; it wins over include."`
	Rename   map[string]string        `key:"rename" doc:"Names under which tools are offered: the server's name, and ours."`
	Describe map[string]string        `key:"describe" doc:"Descriptions that take the place of the server's, by tool."`
	Timeout  map[string]time.Duration `key:"timeout" doc:"Timeouts of single tools." default:"that of the server" limit:"−31002"`
	Limits   map[string]ToolLimit     `key:"limits" names:"patterns" doc:"How often and how many at once tools may be called, by pattern; * and ? stand for any characters. The tools of a pattern share it, and one that fits several is bound by each."`
	Prefix   *string                  `key:"prefix" doc:"What stands before the name of each tool; \"\" for nothing." default:"decided by the group"`
}

// A ToolLimit says how often tools may be called. Zero means no limit.
type ToolLimit struct {
	Rate  limit.Rate `key:"rate" short:"true" doc:"How many calls all callers together may make in which time." default:"no limit" limit:"503, −31004"`
	Burst int        `key:"burst" doc:"How many of them may come at once." default:"the number in rate" limit:"see rate"`
	Calls int        `key:"calls" doc:"Calls that may be in flight." default:"no limit" limit:"64 others wait for 1 s, then 503, −31004"`
}

// Prompts says which prompts of a server are offered.
type Prompts struct {
	Include []string `key:"include" doc:"Prompts that are offered; * and ? stand for any characters." default:"all"`
	Exclude []string `key:"exclude" doc:"Prompts that are not; it wins over include."`
}

// Resources says which resources and resource templates of a server are offered. Each
// URI that is asked for counts by itself, whatever template it is made of.
type Resources struct {
	Include []string `key:"include" doc:"Resources that are offered, by their URIs, and resource templates, by their text; * and ? stand for any characters. A template is of use if the URIs that are made of it are offered too." default:"all"`
	Exclude []string `key:"exclude" doc:"Resources and templates that are not; it wins over include. URIs count as they are written, and many servers know several spellings of one: what must stay hidden is better left out of include."`
}

// A Transport is how a server is spoken to. The zero value means auto.
type Transport string

// The transports.
const (
	Auto  Transport = "auto"
	Stdio Transport = "stdio"
	HTTP  Transport = "http"
	SSE   Transport = "sse"
	WS    Transport = "ws"
	TCP   Transport = "tcp"
	Unix  Transport = "unix"
)

// schemes are those of a URL, and the transports that they go with, that which they mean first.
var schemes = map[string][]Transport{
	"http": {Auto, HTTP, SSE}, "https": {Auto, HTTP, SSE}, "http+unix": {Auto, HTTP, SSE},
	"ws": {WS}, "wss": {WS}, "tcp": {TCP}, "unix": {Unix, Auto, HTTP, SSE},
}

// ResolvedTransport returns the transport that the server needs, or Auto if that has to be found
// out: Streamable HTTP or else HTTP+SSE.
func (s *Server) ResolvedTransport() Transport {
	scheme, rest, _ := strings.Cut(strings.ToLower(s.URL), ":")
	switch list := schemes[scheme]; {
	case s.Transport != "" && s.Transport != Auto:
		return s.Transport
	case s.Command != "":
		return Stdio
	case list == nil || scheme == "unix" && strings.HasPrefix(rest, "//"):
		return Auto
	default:
		return list[0]
	}
}

// Location returns where the server is, for people: its command line or its URL with
// references as they were written and secrets left out.
func (s *Server) Location() string {
	switch {
	case s.where != "":
		return s.where
	case s.Command != "":
		return s.Command
	}
	u, err := url.Parse(s.URL)
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host
}

// Offers reports whether a tool of the server is offered, by the server's name for it.
func (t *Tools) Offers(name string) bool { return offers(t.Include, t.Exclude, name) }

// Offers reports whether a prompt of the server is offered, by its name.
func (p *Prompts) Offers(name string) bool { return offers(p.Include, p.Exclude, name) }

// Offers reports whether a resource of the server is offered, by its URI, or a resource
// template, by its text.
func (r *Resources) Offers(uri string) bool { return offers(r.Include, r.Exclude, uri) }

func offers(include, exclude []string, name string) bool {
	return !pattern.Any(exclude, name) && (len(include) == 0 || pattern.Any(include, name))
}
