package config

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/gateway/config/hosts"
	"github.com/dragoman-mcp/dragoman/internal/gateway/config/syntax"
	"github.com/dragoman-mcp/dragoman/internal/util/lazy"
	"github.com/dragoman-mcp/dragoman/internal/util/limit"
)

// readRoot reads a whole file.
func (r *reader) readRoot(f *File) {
	for _, m := range r.in.Root.Members {
		k, ok := fileObject.find(m.Key)
		switch {
		case m.Key == "servers":
			r.readServers(f, m.Value)
		case ok:
			r.readKey(reflect.ValueOf(f).Elem(), k, m.Value, "")
		case m.Key == "$schema" || strings.HasPrefix(m.Key, "x-"):
			// For editors, and for what aliases refer to.
		default:
			r.unknown(m, "", fileObject)
		}
	}
}

var goodName = lazy.Regexp(`^[A-Za-z0-9_.-]{1,64}$`)

const nameHint = "use 1 to 64 of the characters A-Z a-z 0-9 _ . -"

// readServers reads a mapping of servers, and checks each.
func (r *reader) readServers(f *File, n *syntax.Node) {
	if n.Kind != syntax.Table && n.Kind != syntax.Null {
		r.expect(n, cmp.Or(n.Path, "servers"), "a mapping from names to servers")
	}
	for _, m := range n.Members {
		name, path := m.Key, "servers."+m.Key
		if !goodName().MatchString(name) {
			r.fail(m.At, fmt.Sprintf("%q cannot be the name of a server", syntax.Clip(name)), nameHint)
			continue
		}
		if r.seen[name] != "" {
			r.warn(m.At, fmt.Sprintf("the server %q takes the place of the one in %s", name, r.seen[name]), "")
		}
		r.seen[name] = fmt.Sprintf("%s, line %d", r.src.Name, m.At.Line)
		r.server, r.broken[name] = name, m.Value.Broken
		s := &Server{Name: name}
		if m.Value.Kind != syntax.Table {
			r.expect(m.Value, path, "a mapping with a command or a url")
		} else {
			r.readTable(reflect.ValueOf(s).Elem(), serverObject, m.Value, path)
			(&check{reader: r, Server: s, member: m, path: path}).all()
		}
		r.server = ""
		if f.Servers[name] == nil {
			f.Names = append(f.Names, name)
		}
		f.Servers[name] = s
	}
}

// readTable fills a struct from a table by its keys. where is the path of the table.
// Keys that it does not know are errors.
func (r *reader) readTable(v reflect.Value, o object, n *syntax.Node, where string) {
	if n.Kind != syntax.Table {
		r.expect(n, where, "a mapping")
	}
	for _, m := range n.Members {
		if k, ok := o.find(m.Key); ok {
			r.readKey(v, k, m.Value, where)
		} else {
			r.unknown(m, where, o)
		}
	}
}

// readKey fills one field.
func (r *reader) readKey(v reflect.Value, k key, n *syntax.Node, where string) {
	if n.Kind != syntax.Null {
		r.read(v.Field(k.index), k, n, join(where, k.name))
	}
}

func (r *reader) unknown(m syntax.Member, where string, o object) {
	hint := syntax.DidYouMean(m.Key, o.names())
	if as := hosts.CanonicalKey(m.Key); hint == "" && as != "" && where == "servers."+r.server {
		hint = fmt.Sprintf("other programs call it that; here it is %s", as)
	}
	hint = cmp.Or(hint, "the keys here are "+strings.Join(o.names(), ", "))
	r.fail(m.At, fmt.Sprintf("unknown key %q in %s", syntax.Clip(m.Key), cmp.Or(where, "the file")), hint)
}

// read fills a value of any type that the structs have. It returns false for text
// that cannot be had.
func (r *reader) read(v reflect.Value, k key, n *syntax.Node, where string) bool {
	where = cmp.Or(n.Path, where)
	switch t := v.Type(); {
	case t == durationType:
		v.SetInt(int64(r.duration(k, n, where)))
	case t == sizeType:
		if s, ok := r.text(n, where); ok {
			size, message, hint := parseSize(s)
			r.bad(n, where, message, hint)
			v.SetInt(int64(size))
		}
	case t == rateType:
		v.Set(reflect.ValueOf(r.rate(n, where)))
	case t.Kind() == reflect.String:
		return r.word(v, k, n, where)
	case t.Kind() == reflect.Bool:
		v.SetBool(r.boolean(n, where) != n.Not)
	case t.Kind() == reflect.Int:
		v.SetInt(r.count(n, where))
	case t.Kind() == reflect.Pointer:
		v.Set(reflect.New(t.Elem()))
		r.read(v.Elem(), k, n, where)
	case t.Kind() == reflect.Slice:
		r.readList(v, k, n, where)
	case t.Kind() == reflect.Map:
		r.readMap(v, n, where)
	default:
		r.readObject(v, n, where)
	}
	return true
}

// readObject fills a struct, which may be given by its most important value alone.
func (r *reader) readObject(v reflect.Value, n *syntax.Node, where string) {
	o := objectOf(v.Type())
	if k := o.short; k != nil && n.Kind != syntax.Table && (k.typ.Kind() == reflect.Slice || n.Kind != syntax.List) {
		r.readKey(v, *k, n, where)
		return
	}
	r.readTable(v, o, n, where)
}

func (r *reader) readList(v reflect.Value, k key, n *syntax.Node, where string) {
	items := n.Items
	switch {
	case n.Kind != syntax.List && !k.one:
		r.expect(n, where, "a list")
		return
	case n.Kind != syntax.List:
		items = []*syntax.Node{n}
	}
	v.Set(reflect.MakeSlice(v.Type(), len(items), len(items)))
	for i, item := range items {
		r.read(v.Index(i), key{path: k.path}, item, where+"["+strconv.Itoa(i)+"]")
	}
}

func (r *reader) readMap(v reflect.Value, n *syntax.Node, where string) {
	if n.Kind != syntax.Table {
		r.expect(n, where, "a mapping")
		return
	}
	v.Set(reflect.MakeMapWithSize(v.Type(), len(n.Members)))
	for _, m := range n.Members {
		value := reflect.New(v.Type().Elem()).Elem()
		if m.Value.Kind == syntax.Null && value.Kind() == reflect.String {
			r.fail(m.At, fmt.Sprintf("%s has no value", join(where, m.Key)), `write "" for an empty one`)
			continue
		}
		ok := r.read(value, key{}, m.Value, join(where, m.Key))
		if ok || m.Value.Written == "" { // what a host only names a variable for is not there without it
			v.SetMapIndex(reflect.ValueOf(m.Key), value)
		}
	}
}

// text returns a scalar with its references replaced.
func (r *reader) text(n *syntax.Node, where string) (string, bool) {
	switch n.Kind {
	case syntax.Text:
		return r.expand(n)
	case syntax.Number, syntax.Boolean:
		return n.Text, true
	}
	return "", r.expect(n, where, "text")
}

// literal returns the text of a number or a boolean, for which a reference may stand.
func (r *reader) literal(kind syntax.Kind, n *syntax.Node, where, what string) (string, bool) {
	refers := n.Kind == syntax.Text && (strings.Contains(n.Text, "${") || r.in.References != nil)
	if n.Kind != kind && !refers {
		return "", r.expect(n, where, what)
	}
	return r.text(n, where)
}

// word fills a string, perhaps one of a few.
func (r *reader) word(v reflect.Value, k key, n *syntax.Node, where string) bool {
	s, ok := r.text(n, where)
	switch {
	case !ok:
		return false
	case v.Type() == transportType:
		s = cmp.Or(hosts.Transport(s), s)
	case k.path:
		s = r.absolute(s)
	}
	if k.enum == nil || slices.Contains(k.enum, s) {
		v.SetString(s)
		return true
	}
	last := len(k.enum) - 1
	hint := "use " + strings.Join(k.enum[:last], ", ") + " or " + k.enum[last]
	r.bad(n, where, "is unknown here", cmp.Or(syntax.DidYouMean(s, k.enum), hint))
	return false
}

func (r *reader) duration(k key, n *syntax.Node, where string) time.Duration {
	s, ok := r.text(n, where)
	number, err := strconv.ParseFloat(s, 64)
	switch {
	case !ok:
		return 0
	case k.none != "" && s == "none":
		return -1
	case n.Unit > 0 && err == nil:
		return r.inUnit(k, n, number, where)
	}
	d, message, hint := parseDuration(s)
	r.bad(n, where, message, hint)
	return d
}

// inUnit reads a time whose unit is not written, and warns where that looks wrong.
func (r *reader) inUnit(k key, n *syntax.Node, number float64, where string) time.Duration {
	where += ": " + n.Show()
	switch {
	case !(number >= 0 && number <= 1e12):
		r.fail(n.At, where+" is out of range", "")
		return 0
	case n.Unit == time.Millisecond && number > 0 && number < 1000 && k.name != "min": // a pause may be short
		r.warn(n.At, where+" is in milliseconds here, less than a second", fmt.Sprintf("if seconds are meant, write %g", number*1000))
	case n.Unit == time.Second && number >= 10_000:
		r.warn(n.At, where+" is in seconds here, more than two hours", fmt.Sprintf("if milliseconds are meant, write %g", number/1000))
	}
	return time.Duration(number * float64(n.Unit))
}

func (r *reader) rate(n *syntax.Node, where string) limit.Rate {
	s, ok := r.text(n, where)
	if !ok {
		return limit.Rate{}
	}
	rate, err := limit.ParseRate(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		r.bad(n, where, "is not a rate", "write a number and a time, as in 50/s, 100/m or 1000/h")
	}
	return rate
}

func (r *reader) boolean(n *syntax.Node, where string) bool {
	const what = "true or false"
	s, ok := r.literal(syntax.Boolean, n, where, what)
	if s = strings.ToLower(s); ok && s != "true" && s != "false" {
		r.expect(n, where, what)
	}
	return s == "true"
}

// count returns a whole number that is not negative.
func (r *reader) count(n *syntax.Node, where string) int64 {
	const what = "a whole number"
	s, ok := r.literal(syntax.Number, n, where, what)
	i, err := strconv.ParseInt(s, 10, 32)
	switch {
	case ok && err != nil:
		r.expect(n, where, what)
	case i < 0:
		r.bad(n, where, "is negative", "")
	}
	return i
}

// truths are words that are taken for true or false elsewhere.
var truths = map[string]string{"yes": "true", "on": "true", "y": "true", "no": "false", "off": "false", "n": "false"}

// expect reports a value of the wrong kind, and returns false.
func (r *reader) expect(n *syntax.Node, where, what string) bool {
	hint, truth := "", truths[strings.ToLower(n.Text)]
	switch {
	case what == "a list" && n.Scalar():
		hint = "write a list, as in [one, two]"
	case n.Kind != syntax.Text:
	case what == "a whole number" && plainNumber().MatchString(n.Text), what == "true or false" && (n.Text == "true" || n.Text == "false"):
		hint = "leave out the quotes"
	case what == "true or false" && truth != "":
		hint = "write " + truth
	}
	r.fail(n.At, fmt.Sprintf("%s: %s is expected, not %s", where, what, n.Show()), hint)
	return false
}

// bad reports a value that a check did not like; with an empty message it does not.
func (r *reader) bad(n *syntax.Node, where, message, hint string) {
	if message != "" {
		r.fail(n.At, fmt.Sprintf("%s: %s %s", where, n.Show(), message), hint)
	}
}

func join(where, name string) string { return strings.TrimPrefix(where+"."+name, ".") }

var (
	plainNumber = lazy.Regexp(`^[+-]?\d+(?:\.\d+)?$`)
	numberWord  = lazy.Regexp(`^([+-]?\d+(?:\.\d+)?)\s*([A-Za-zµ]+)$`)
)

// timeWords are units as people write them.
var timeWords = map[string]string{
	"msec": "ms", "msecs": "ms", "millis": "ms", "millisecond": "ms", "milliseconds": "ms",
	"s": "s", "sec": "s", "secs": "s", "second": "s", "seconds": "s",
	"m": "m", "min": "m", "mins": "m", "minute": "m", "minutes": "m",
	"h": "h", "hr": "h", "hrs": "h", "hour": "h", "hours": "h", "ms": "ms",
}

// dayUnits are units that become hours.
var dayUnits = map[string]float64{"d": 24, "day": 24, "days": 24, "w": 168, "week": 168, "weeks": 168}

// parseDuration reads "30s" or "1m30s". If it cannot, it says what to write.
func parseDuration(s string) (d time.Duration, message, hint string) {
	d, err := time.ParseDuration(s)
	switch {
	case plainNumber().MatchString(s):
		n, _ := strconv.ParseFloat(s, 64)
		seconds := s
		if n >= 1000 && math.Mod(n, 1000) == 0 {
			seconds = fmt.Sprint(n / 1000)
		}
		return 0, "has no unit", fmt.Sprintf("write %ss or %sms", seconds, s)
	case err != nil:
		hint = "write a number and a unit, as in 500ms, 30s, 5m or 1h30m"
		if m := numberWord().FindStringSubmatch(s); m != nil {
			if unit := timeWords[strings.ToLower(m[2])]; unit != "" {
				hint = fmt.Sprintf("write %s%s", m[1], unit)
			} else if hours := dayUnits[strings.ToLower(m[2])]; hours > 0 {
				n, _ := strconv.ParseFloat(m[1], 64)
				hint = fmt.Sprintf("write %gh", n*hours)
			}
		}
		return 0, "is not a time", hint
	case d < 0:
		return 0, "is negative", ""
	}
	return d, "", ""
}

var sizeUnits = map[string]float64{
	"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40,
	"kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12,
}

// sizeWords are units as people write them.
var sizeWords = map[string]string{
	"b": "B", "bytes": "B", "byte": "B", "k": "KiB", "kib": "KiB", "kb": "KB", "ki": "KiB",
	"m": "MiB", "mib": "MiB", "mb": "MB", "mi": "MiB", "g": "GiB", "gib": "GiB", "gb": "GB", "gi": "GiB",
}

// parseSize reads "16MiB". If it cannot, it says what to write.
func parseSize(s string) (size Size, message, hint string) {
	hint = "write a number and a unit, as in 512KiB or 16MiB"
	m := numberWord().FindStringSubmatch(s)
	switch {
	case plainNumber().MatchString(s):
		return 0, "has no unit", fmt.Sprintf("write %sB, or use KiB, MiB or GiB", s)
	case m == nil:
		return 0, "is not a size", hint
	}
	unit := sizeUnits[m[2]]
	if word := sizeWords[strings.ToLower(m[2])]; word != "" {
		hint = fmt.Sprintf("write %s%s", m[1], word)
	}
	n, _ := strconv.ParseFloat(m[1], 64)
	switch n *= unit; {
	case unit == 0:
		return 0, "is not a size", hint
	case n < 0:
		return 0, "is negative", ""
	case n > math.MaxInt64/2:
		return 0, "is too large", ""
	}
	return Size(n), "", ""
}
