// Package config reads the configuration: our own format in YAML or JSON, and the files in
// which other programs keep their MCP servers. The gateway and the commands use it. It starts
// and dials nothing.
//
//	bytes ─▶ tree with positions ─▶ tree with our keys ─▶ structs ─▶ checks ─▶ report
//	      syntax                 hosts                 decode     check
//
// [Load] reads one or several files, replaces references such as ${VAR} once, where a value is
// read, checks everything, and reports all problems together (the first 100), each with its
// position. A server with an error is left out, so that the others can start.
//
// The structs are the one list of keys. Their tags hold the spelling, the meaning and the
// allowed values; decoding, errors with suggestions, [Schema] and [Reference] read them.
package config

import (
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/util/limit"
)

// A File is what a configuration says, with all references replaced. What it does
// not say is left at zero, which means the default.
type File struct {
	Listen   []Listen           `key:"listen" one:"true" doc:"Where clients come in. One address may be given without a list." default:"127.0.0.1:8808"`
	Servers  map[string]*Server `key:"servers" doc:"The servers, by name. A name has 1 to 64 of the characters A-Z a-z 0-9 _ . -"`
	Groups   map[string]*Group  `key:"groups" doc:"Sets of servers that are offered as one, by name."`
	Commands Commands           `key:"commands" doc:"Which programs may be started."`
	Auth     Auth               `key:"auth" doc:"Who may come in."`
	Rules    []string           `key:"rules" one:"true" doc:"Who may use what. Once there is a rule, what none allows is denied, and does not exist for the caller. See letting-in.md."`
	State    string             `key:"state" path:"true" doc:"Directory for what outlives the process. A relative path starts at the directory of the file."`
	Readyz   string             `key:"readyz" doc:"When /readyz reports that the gateway is ready: as soon as any server is ready or has failed, or while all servers that are not disabled are ready." enum:"any|all" default:"any"`
	Log      Log                `key:"log" doc:"What is logged, and how."`
	Limits   Limits             `key:"limits" doc:"What clients may use."`
	Audit    Audit              `key:"audit" doc:"Who did what, written down in files that show when they were changed. See audit.md."`

	// Names are the names of Servers in the order of the files.
	Names []string

	// Broken are the names of the servers that were left out because of errors, in
	// the order of the files.
	Broken []string

	// Files are the files that were read, with those that references and env
	// files named: what to watch for changes.
	Files []string

	order  []string // names of all servers, also of the broken ones
	faults []string // errors of those that are Broken, in their order
}

// Restore puts servers of an earlier configuration in the places of those that were
// left out of this one because of errors. It returns the names of those that the
// earlier one has. A server whose program is not allowed any more is not one of them.
func (f *File) Restore(earlier *File) (restored []string) {
	policy := f.policy()
	for _, name := range f.Broken {
		s := earlier.Servers[name]
		if s == nil || s.policy != nil && s.vet(policy) != nil {
			continue
		}
		if s.policy != nil && !reflect.DeepEqual(s.policy, policy) {
			next := *s
			next.policy = policy
			s = &next
		}
		f.Servers[name] = s
		restored = append(restored, name)
	}
	if len(restored) > 0 {
		f.Names = f.present()
	}
	return restored
}

// Fault returns the errors because of which a server was left out, as text, and whether
// it was.
func (f *File) Fault(server string) (text string, ok bool) {
	i := slices.Index(f.Broken, server)
	if i < 0 || f.Servers[server] != nil {
		return "", false
	}
	if i < len(f.faults) {
		text = f.faults[i]
	}
	return text, true
}

// All returns the names of all servers in the order of the files, also of those that
// were left out because of errors.
func (f *File) All() []string {
	if f.order == nil {
		return f.Names // it was not read from files
	}
	return f.order
}

// present returns the names of the servers there are, in the order of the files.
func (f *File) present() []string {
	return slices.DeleteFunc(slices.Clone(f.order), func(name string) bool { return f.Servers[name] == nil })
}

// A Listen is an address where clients come in.
type Listen struct {
	Address  string   `key:"address" short:"true" doc:"HOST:PORT or http+unix:PATH for HTTP, SSE and WebSocket; tcp:HOST:PORT or unix:PATH for messages alone; stdio for standard input and output."`
	TLS      TLS      `key:"tls" doc:"Certificate, for HOST:PORT. Without one that speaks plain HTTP."`
	Origins  []string `key:"origins" doc:"Web pages that may call, as https://host or https://host:port. With none among them, other pages of this machine may not." default:"those of this machine"`
	Hosts    []string `key:"hosts" doc:"Names by which clients may call us." default:"those of this machine, and of the certificate"`
	Proxies  []string `key:"proxies" one:"true" doc:"Proxies before this address, which tell of their clients by X-Forwarded-For, -Host and -Proto: addresses, ranges such as 10.0.0.0/8, or unix for who opens the socket. What others say in these headers is ignored. Clients are taken to speak TLS with a proxy."`
	Auth     string   `key:"auth" doc:"Whether clients have to prove there who they are, as auth says." enum:"required|none" default:"required"`
	Insecure []string `key:"insecure" one:"true" doc:"What an address that other machines can reach may lack: no-auth lets everybody use the servers, no-tls lets others on the way read and change everything, tokens too."`
}

// What an Insecure address may lack.
const (
	NoAuth = "no-auth"
	NoTLS  = "no-tls"
)

// A TLS is the certificate of a Listen.
type TLS struct {
	Cert       string `key:"cert" path:"true" doc:"File with the certificate chain, in PEM. It is read again when it changes, as are the others."`
	Key        string `key:"key" path:"true" doc:"File with the private key, in PEM."`
	ClientCA   string `key:"clientCA" path:"true" doc:"File with the authorities that sign clients' certificates, in PEM. If given, a client is asked for one."`
	ClientAuth string `key:"clientAuth" doc:"Whether a client must have a certificate, or may." enum:"require|optional" default:"require"`
	MinVersion string `key:"minVersion" doc:"Oldest version of TLS that is spoken." enum:"1.2|1.3" default:"1.2"`
}

// A Group is a set of servers that are offered as one.
type Group struct {
	Servers []string `key:"servers" short:"true" doc:"Names of the servers, in the order in which they are listed."`
	Path    string   `key:"path" doc:"Path of the group's URL." default:"/groups/NAME/mcp"`
	Naming  string   `key:"naming" doc:"How tools are named: with their server's name before them, or as they are, where the first server with a name wins." enum:"prefix|plain" default:"prefix"`
}

// A Log says what is logged.
type Log struct {
	Level  string `key:"level" short:"true" doc:"Least important records that are logged." enum:"debug|info|warn|error|none" default:"info"`
	Format string `key:"format" doc:"How records are written: as key=value, as JSON, or in short lines on a terminal and as key=value elsewhere." enum:"auto|text|json" default:"auto"`

	Slow time.Duration `key:"slow" doc:"How long a call may take before that is a warning in the log." default:"10s" limit:"a warning in the log"`
}

// Limits is what clients may use.
type Limits struct {
	Message           Size          `key:"message" doc:"Largest message." default:"16MiB" limit:"413; a stream skips it, a socket is closed with 1009"`
	Sessions          int           `key:"sessions" doc:"Sessions of clients at once, and conversations on sockets and streams." default:"16384" limit:"503, −31004; a stream is closed"`
	SessionsPerCaller int           `key:"sessionsPerCaller" doc:"How many of these one caller may have." default:"4096" limit:"429, −31004; a stream is closed"`
	IdleSession       time.Duration `key:"idleSession" doc:"How long a session may be unused." default:"30m" limit:"404 from then on"`
	Calls             int           `key:"calls" doc:"Requests of one session in flight." default:"1024" limit:"429, −31004"`
	CallsPerCaller    int           `key:"callsPerCaller" doc:"Requests of one caller in flight." default:"no limit" limit:"429, −31004"`
	Rate              limit.Rate    `key:"rate" doc:"How many requests one session may make in which time." default:"no limit" limit:"429, −31004"`
	Burst             int           `key:"burst" doc:"How many of them may come at once." default:"the number in rate" limit:"see rate"`
	RatePerCaller     limit.Rate    `key:"ratePerCaller" doc:"How many requests one caller may make in which time. A new session does not reset it." default:"no limit" limit:"429, −31004"`
	BurstPerCaller    int           `key:"burstPerCaller" doc:"How many of them may come at once." default:"the number in ratePerCaller" limit:"see ratePerCaller"`
	Memory            Size          `key:"memory" doc:"Memory that we ourselves may use." default:"GOMEMLIMIT, or nine tenths of what the control group has, or no limit" limit:"from 80 % on 503, −31004 for new sessions, from 90 % on for all requests; what is in flight continues"`
	FailedProofs      limit.Rate    `key:"failedProofs" doc:"How often an address may send a proof that is not good, of who it is. Whoever has been let in is not held up." default:"5/s" limit:"429"`
	SignInRate        limit.Rate    `key:"signInRate" doc:"How often an address may ask where clients register and users sign in, with auth.provider." default:"20/s" limit:"429"`
}

// A Size is a number of bytes.
type Size int64

// A key is one row of the table of keys: a field of a struct and what its tags say.
type key struct {
	name string
	doc  string
	def  string       // the default, as it is written
	enum []string     // all that it may be
	none string       // what the value "none" means, if it may be that
	only string       // "command" or "url" if it means nothing for the other
	one  bool         // a list of one may be given without the list
	path bool         // a file or a directory: made absolute
	like bool         // the names of a mapping are patterns
	full string       // what happens at a limit; empty if it is none
	typ  reflect.Type // of the field

	index int // of the field
}

// An object is a struct whose fields are keys.
type object struct {
	keys  []key
	short *key // the one that may stand for the whole; may be nil
}

// Types with a spelling of their own.
var (
	durationType  = reflect.TypeFor[time.Duration]()
	sizeType      = reflect.TypeFor[Size]()
	rateType      = reflect.TypeFor[limit.Rate]()
	transportType = reflect.TypeFor[Transport]()
)

// The objects of a file and of a server.
var (
	fileObject   = objectOf(reflect.TypeFor[File]())
	serverObject = objectOf(reflect.TypeFor[Server]())
)

// objectOf reads the keys of a struct.
func objectOf(t reflect.Type) (o object) {
	for _, f := range reflect.VisibleFields(t) {
		tag := f.Tag.Get
		if tag("key") == "" {
			continue
		}
		k := key{
			name: tag("key"), doc: tag("doc"), def: tag("default"), none: tag("none"), only: tag("only"),
			one: tag("one") != "", path: tag("path") != "", like: tag("names") == "patterns", full: tag("limit"), typ: f.Type, index: f.Index[0],
		}
		if enum := tag("enum"); enum != "" {
			k.enum = strings.Split(enum, "|")
		}
		if tag("short") != "" {
			o.short = &k
		}
		o.keys = append(o.keys, k)
	}
	return o
}

func (o object) find(name string) (key, bool) {
	i := slices.IndexFunc(o.keys, func(k key) bool { return k.name == name })
	if i < 0 {
		return key{}, false
	}
	return o.keys[i], true
}

func (o object) names() (list []string) {
	for _, k := range o.keys {
		list = append(list, k.name)
	}
	return list
}

// under returns the struct that a field leads to, through pointers, lists and maps,
// or nil.
func under(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
		t = t.Elem()
	}
	if t.Kind() == reflect.Struct && t != rateType {
		return t
	}
	return nil
}
