// Package config reads what Dragoman is told to do: its own format in YAML or
// JSON, and the files in which other programs keep their MCP servers, as they are.
//
// [Load] reads one or several files, replaces references such as ${VAR}, checks
// everything, and reports all that is wrong at once, each with its place. Nothing
// is started and nothing is dialled.
//
// The structs are the one list of keys. Their tags say how a key is spelled, what
// it means and what it may be; decoding, the errors about unknown keys, [Schema]
// and [Reference] all read them.
package config

import (
	"reflect"
	"slices"
	"strings"
	"time"
)

// A File is what a configuration says, with all references replaced. What it does
// not say is left at zero, which means the default.
type File struct {
	Listen  []Listen           `key:"listen" one:"true" doc:"Where clients come in. One address may be given without a list." default:"127.0.0.1:8808"`
	Servers map[string]*Server `key:"servers" doc:"The servers, by name. A name has 1 to 64 of the characters A-Z a-z 0-9 _ . -"`
	Groups  map[string]*Group  `key:"groups" doc:"Sets of servers that are offered as one, by name."`
	Auth    Auth               `key:"auth" doc:"Who may come in."`
	Rules   []string           `key:"rules" one:"true" doc:"Who may use what. Once there is a rule, what none allows is denied, and does not exist for the caller. See security.md."`
	State   string             `key:"state" path:"true" doc:"Directory for what outlives the process. A relative path starts at the directory of the file."`
	Log     Log                `key:"log" doc:"What is logged, and how."`
	Limits  Limits             `key:"limits" doc:"What clients may use."`

	// Names are the names of Servers in the order of the files.
	Names []string

	// Broken are the names of the servers that were left out because of errors, in
	// the order of the files.
	Broken []string

	// Files are the files that were read, with those that references and env
	// files named: what to watch for changes.
	Files []string

	order []string // names of all servers, also of the broken ones
}

// Restore puts servers of an earlier configuration in the places of those that were
// left out of this one because of errors. It returns the names of those that the
// earlier one has.
func (f *File) Restore(earlier *File) (restored []string) {
	for _, name := range f.Broken {
		if s := earlier.Servers[name]; s != nil {
			f.Servers[name] = s
			restored = append(restored, name)
		}
	}
	if len(restored) > 0 {
		f.Names = f.present()
	}
	return restored
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
	Address string   `key:"address" short:"true" doc:"HOST:PORT or http+unix:PATH for HTTP, SSE and WebSocket; tcp:HOST:PORT or unix:PATH for messages alone; stdio for standard input and output."`
	TLS     TLS      `key:"tls" doc:"Certificate, for addresses that speak HTTP. Without one they speak plain HTTP."`
	Origins []string `key:"origins" doc:"Web pages that may call, as https://host or https://host:port. With none among them, other pages of this machine may not." default:"those of this machine"`
	Hosts   []string `key:"hosts" doc:"Names by which clients may call us." default:"those of this machine"`
	Auth    string   `key:"auth" doc:"Whether clients have to prove there who they are, as auth says." enum:"required|none" default:"required"`
}

// A TLS is the certificate of a Listen.
type TLS struct {
	Cert     string `key:"cert" path:"true" doc:"File with the certificate chain, in PEM."`
	Key      string `key:"key" path:"true" doc:"File with the private key, in PEM."`
	ClientCA string `key:"clientCA" path:"true" doc:"File with the authorities that sign clients' certificates. If given, a client needs one."`
}

// A Group is a set of servers that are offered as one.
type Group struct {
	Servers []string `key:"servers" short:"true" doc:"Names of the servers, in the order in which they are listed."`
	Path    string   `key:"path" doc:"Path of the group's URL." default:"/groups/NAME/mcp"`
	Naming  string   `key:"naming" doc:"How tools are named: with their server's name before them, or as they are, where the first server with a name wins." enum:"prefix|plain" default:"prefix"`
}

// A Log says what is logged.
type Log struct {
	Level  string `key:"level" short:"true" doc:"Least important records that are logged." enum:"debug|info|warn|error" default:"info"`
	Format string `key:"format" doc:"How records are written." enum:"text|json" default:"text"`
}

// Limits is what clients may use.
type Limits struct {
	Message     Size          `key:"message" doc:"Largest message." default:"16MiB"`
	Sessions    int           `key:"sessions" doc:"Sessions of clients at once." default:"16384"`
	Calls       int           `key:"calls" doc:"Requests of one session under way." default:"1024"`
	IdleSession time.Duration `key:"idleSession" doc:"How long a session may be unused." default:"30m"`
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
			one: tag("one") != "", path: tag("path") != "", typ: f.Type, index: f.Index[0],
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
	if t.Kind() == reflect.Struct {
		return t
	}
	return nil
}
