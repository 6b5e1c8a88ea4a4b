package httpx

import (
	"net/http"
	"strconv"
	"strings"
)

// Accepts tells whether the request's Accept admits all of these media types.
// Of several ranges that fit a type the most specific decides. A request without
// Accept admits none: MCP wants the types named.
func Accepts(r *http.Request, types ...string) bool {
	values := r.Header["Accept"]
	if len(values) == 1 && lists(values[0], types) {
		return true
	}
	for _, t := range types {
		major, _, _ := strings.Cut(t, "/")
		if !admits(values, t, major+"/*", "*/*") {
			return false
		}
	}
	return true
}

// lists tells whether line is these names and nothing else, as most clients write
// it.
func lists(line string, names []string) bool {
	for i, name := range names {
		if i > 0 {
			if !strings.HasPrefix(line, ", ") {
				return false
			}
			line = line[len(", "):]
		}
		if !strings.HasPrefix(line, name) {
			return false
		}
		line = line[len(name):]
	}
	return line == ""
}

// admits tells what a list with weights, such as that of Accept, says of
// something that has several names, the most specific first.
func admits(values []string, names ...string) bool {
	best, verdict := len(names), false
	for _, line := range values {
		for element := range strings.SplitSeq(line, ",") {
			name, params, _ := strings.Cut(element, ";")
			name = strings.TrimSpace(name)
			for i, want := range names[:min(best+1, len(names))] {
				if !strings.EqualFold(name, want) {
					continue
				}
				// Named twice, it is admitted if either says so.
				wanted := weighs(params)
				if i < best {
					best, verdict = i, wanted
				} else {
					verdict = verdict || wanted
				}
				break
			}
		}
	}
	return verdict
}

// weighs tells whether the parameters of an element leave it any weight.
func weighs(params string) bool {
	for p := range strings.SplitSeq(params, ";") {
		name, value, _ := strings.Cut(p, "=")
		if strings.EqualFold(strings.TrimSpace(name), "q") {
			q, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			return err == nil && q > 0
		}
	}
	return true
}
