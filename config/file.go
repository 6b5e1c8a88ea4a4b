package config

import (
	"os"
	"path/filepath"
	"slices"
	"time"
)

// A File is what a configuration says, with all references replaced. What it does
// not say is left at zero, which means the default.
type File struct {
	Listen  []Listen           `key:"listen" one:"true" doc:"Where clients come in. One address may be given without a list." default:"127.0.0.1:8808"`
	Servers map[string]*Server `key:"servers" doc:"The servers, by name. A name has 1 to 64 of the characters A-Z a-z 0-9 _ . -"`
	Groups  map[string]*Group  `key:"groups" doc:"Sets of servers that are offered as one, by name."`
	State   string             `key:"state" doc:"Directory for what outlives the process. A relative path starts at the directory of the file."`
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

// present returns the names of the servers there are, in the order of the files.
func (f *File) present() []string {
	return slices.DeleteFunc(slices.Clone(f.order), func(name string) bool { return f.Servers[name] == nil })
}

// A Listen is an address where clients come in.
type Listen struct {
	Address string   `key:"address" short:"true" doc:"HOST:PORT or http+unix:PATH for HTTP, SSE and WebSocket; tcp:HOST:PORT or unix:PATH for messages alone; stdio for standard input and output."`
	TLS     TLS      `key:"tls" doc:"Certificate, for addresses that speak HTTP. Without one they speak plain HTTP."`
	Origins []string `key:"origins" doc:"Web pages that may call, as https://host or https://host:port." default:"those of this machine"`
	Hosts   []string `key:"hosts" doc:"Names by which clients may call us." default:"those of this machine"`
	Auth    Auth     `key:"auth" doc:"Who may come in."`
}

// A TLS is the certificate of a Listen.
type TLS struct {
	Cert     string `key:"cert" doc:"File with the certificate chain, in PEM."`
	Key      string `key:"key" doc:"File with the private key, in PEM."`
	ClientCA string `key:"clientCA" doc:"File with the authorities that sign clients' certificates. If given, a client needs one."`
}

// An Auth says who may come in.
type Auth struct {
	Tokens []string `key:"tokens" short:"true" one:"true" doc:"Bearer tokens, one of which a client must send. Use references: ${file:/run/secrets/token}."`
}

// given tells whether there is anything to check.
func (a *Auth) given() bool { return len(a.Tokens) > 0 }

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

// names are the files that Find looks for.
var names = []string{"dragoman.yaml", "dragoman.yml", "dragoman.json", ".mcp.json", "mcp.json"}

// Find returns the configuration of a directory: the first of dragoman.yaml,
// dragoman.yml, dragoman.json, .mcp.json and mcp.json that is a file.
func Find(dir string) (path string, ok bool) {
	for _, name := range names {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path, true
		}
	}
	return "", false
}
