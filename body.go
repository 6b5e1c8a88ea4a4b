package dragoman

// known members are those of the body whose place is noted while parsing.
const (
	knownName = iota
	knownURI
	knownArguments
	knownMeta
	knownToken
	knownRequestID
	knownResultType
	knownTTL
	knownCacheScope
	knownResponses
	knownState
	numKnown
)

// knownMember returns the index of a member whose place is noted, or -1.
func knownMember(name string) int {
	switch name {
	case "name":
		return knownName
	case "uri":
		return knownURI
	case "arguments":
		return knownArguments
	case "_meta":
		return knownMeta
	case "progressToken":
		return knownToken
	case "requestId":
		return knownRequestID
	case "resultType":
		return knownResultType
	case "ttlMs":
		return knownTTL
	case "cacheScope":
		return knownCacheScope
	case "inputResponses":
		return knownResponses
	case "requestState":
		return knownState
	}
	return -1
}

// body reads params or result at start and notes its known members. What must
// not stand twice in params may stand twice in a result, where we decide
// nothing, unless its place is noted.
func (p *parser) body(start int, params bool) int {
	if start >= len(p.data) || p.data[start] != '{' {
		if params {
			p.misshapen(start, "params must be an object")
		}
		return p.value(start, 1)
	}
	var unknown nameSet
	i, more := p.open(start)
	for more {
		raw, key, at := p.next(i)
		if at < 0 {
			return -1
		}
		name := view(raw)
		known := knownMember(name)
		if known < 0 {
			name = unescape(raw)
			known = knownMember(name)
		}
		var end int
		if known == knownMeta {
			end = p.meta(at)
		} else {
			end = p.value(at, 2)
		}
		if end < 0 {
			return -1
		}
		switch {
		case known >= 0:
			if !p.m.known[known].absent() {
				p.misshapen(key, "duplicate member "+name)
			}
			p.m.known[known] = member{uint32(key), uint32(at), uint32(end)}
			if params && (known == knownName || known == knownURI) {
				p.routed(name, at, end)
			}
		case params:
			p.mistakable(key, name, reservedInParams[:])
			if !unknown.add(name) {
				p.misshapen(key, "duplicate member of params")
			}
		}
		i, more = p.more(end)
	}
	return i
}

// routed checks the value of a member of params that decides where a request
// goes.
func (p *parser) routed(name string, start, end int) {
	if v := p.data[start:end]; v[0] == '"' {
		if i := loneSurrogate(v); i >= 0 {
			p.misshapen(start+i, name+" holds half a surrogate pair")
		}
	}
}

// meta reads the _meta at start.
func (p *parser) meta(start int) int {
	if start >= len(p.data) || p.data[start] != '{' {
		end := p.value(start, 2)
		if end >= 0 && p.data[start] != 'n' {
			p.misshapen(start, "_meta must be an object")
		}
		return end
	}
	var names nameSet
	i, more := p.open(start)
	for more {
		raw, key, at := p.next(i)
		if at < 0 {
			return -1
		}
		end := p.value(at, 3)
		if end < 0 {
			return -1
		}
		name := unescape(raw)
		if !names.add(name) {
			p.misshapen(key, "duplicate member of _meta")
		}
		if name == "progressToken" {
			p.m.token = span{uint32(at), uint32(end)}
		}
		i, more = p.more(end)
	}
	return i
}
