package config

import (
	"bytes"
	_ "embed"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

//go:embed reference_head.md
var referenceHead string

const referenceLimits = `
## How much is read

| what | at most |
|---|---|
| a file | %d MiB, %d values, %d levels |
| a file that a reference or envFile names | %d MiB |
| problems in a report | %d; more are counted |
| the name of a server or a group | %d characters |
`

// Reference returns the reference of our own format, and of what is accepted of
// others, in Markdown.
func Reference() []byte {
	var b bytes.Buffer
	b.WriteString(referenceHead)
	fmt.Fprintf(&b, referenceLimits, MaxFile>>20, MaxNodes, MaxDepth, MaxValueFile>>20, MaxProblems, MaxName)
	b.WriteString("\n## Keys\n")
	seen := map[reflect.Type]bool{}
	queue := []section{{"The file", reflect.TypeFor[File]()}}
	for len(queue) > 0 {
		s := queue[0]
		queue = queue[1:]
		if seen[s.typ] {
			continue
		}
		seen[s.typ] = true
		queue = append(queue, writeSection(&b, s)...)
	}
	writeHosts(&b)
	return b.Bytes()
}

// A section is a struct and the path that leads to it.
type section struct {
	title string
	typ   reflect.Type
}

// writeSection writes the keys of a struct, and returns the structs that they lead
// to.
func writeSection(b *bytes.Buffer, s section) (next []section) {
	o := objectOf(s.typ)
	fmt.Fprintf(b, "\n### %s\n\n", s.title)
	if o.short >= 0 {
		fmt.Fprintf(b, "May be given by `%s` alone.\n\n", o.keys[o.short].name)
	}
	b.WriteString("| key | value | default | meaning |\n|---|---|---|---|\n")
	for _, k := range o.keys {
		doc := k.doc
		if k.none != "" {
			doc += fmt.Sprintf(" `none` means %s.", k.none)
		}
		if k.only != "" && k.only != k.name {
			doc += fmt.Sprintf(" With `%s` only.", k.only)
		}
		def := ""
		if k.def != "" {
			def = "`" + k.def + "`"
			if strings.Contains(k.def, " ") {
				def = k.def
			}
		}
		value := describe(k.typ, k.enum)
		if t := under(k.typ); t != nil {
			title := k.name
			if k.typ.Kind() == reflect.Map {
				title += ".NAME"
			}
			if s.typ != reflect.TypeFor[File]() {
				title = s.title + "." + title
			}
			next = append(next, section{title, t})
			anchor := strings.ToLower(strings.ReplaceAll(title, ".", ""))
			value = strings.Replace(value, "mapping", "[mapping](#"+anchor+")", 1)
			if k.typ.Kind() == reflect.Map {
				value = "names, each with a [mapping](#" + anchor + ")"
			}
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", k.name, cell(value), cell(def), cell(doc))
	}
	return next
}

// describe says what may be written for a type.
func describe(t reflect.Type, enum []string) string {
	switch {
	case len(enum) > 0:
		return "`" + strings.Join(enum, "`, `") + "`"
	case t == durationType:
		return "time"
	case t == sizeType:
		return "size"
	}
	switch t.Kind() {
	case reflect.String:
		return "text"
	case reflect.Bool:
		return "`true`, `false`"
	case reflect.Int:
		return "number"
	case reflect.Pointer:
		return describe(t.Elem(), nil)
	case reflect.Slice:
		return "list of " + describe(t.Elem(), nil)
	case reflect.Map:
		return "names, each with a " + describe(t.Elem(), nil)
	}
	return "mapping"
}

func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }

// writeHosts writes what is accepted of other programs' files.
func writeHosts(b *bytes.Buffer) {
	b.WriteString("\n## Files of other programs\n\n")
	b.WriteString("They are read as they are. A file is recognised by the key that holds its servers.\n\n")
	b.WriteString("| program | file | key | a time without a unit |\n|---|---|---|---|\n")
	for _, h := range hosts {
		unit := "milliseconds"
		if h.unit == time.Second {
			unit = "seconds"
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s |\n", h.name, h.file, code(h.root), unit)
	}
	b.WriteString("\nTheir keys, beside those that are spelled as ours are. Ours may be used there too.\n\n")
	b.WriteString("| key | ours | note |\n|---|---|---|\n")
	why := map[string][]string{}
	for _, s := range spellingTable() {
		if s.as != "" {
			fmt.Fprintf(b, "| `%s` | `%s` | %s |\n", s.key, s.as, s.doc)
		} else {
			why[s.doc] = append(why[s.doc], "`"+s.key+"`")
		}
	}
	b.WriteString("\nThese mean nothing here; they are named and ignored, as all others are:\n\n")
	for _, reason := range sorted(why) {
		fmt.Fprintf(b, "- %s: %s.\n", strings.Join(why[reason], ", "), reason)
	}
	b.WriteString("\nSpellings of transports: ")
	by := map[Transport][]string{}
	for word, t := range transportWords {
		by[t] = append(by[t], "`"+word+"`")
	}
	var parts []string
	for _, t := range []Transport{Auto, Stdio, HTTP, SSE, WS, TCP, Unix} {
		slices.Sort(by[t])
		parts = append(parts, fmt.Sprintf("%s for %s", strings.Join(by[t], ", "), t))
	}
	b.WriteString(strings.Join(parts, "; ") + ". Case, `-` and `_` do not matter.\n")
}

func code(s string) string {
	if s == "" {
		return "none"
	}
	return "`" + s + "`"
}
