package stdio

import (
	"errors"
	"net"
)

// errHTTP ends the conversation with a client that speaks HTTP.
var errHTTP = errors.New("stdio: the client speaks HTTP; this socket takes lines of JSON")

// A noHTTP is a client's end of a socket that hangs up on HTTP. A web page can
// post lines of JSON to a port of this machine, and a server that skips lines it
// cannot read would come to them. No message begins like a request line.
type noHTTP struct {
	net.Conn
	settled bool // it is no HTTP
	letters bool // so far there are capital letters alone
}

// Read implements io.Reader. What it returns before it is settled is less than a
// line, so nobody takes that for a message.
func (c *noHTTP) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	for i := 0; i < n && !c.settled; i++ {
		switch b := p[i]; {
		case b >= 'A' && b <= 'Z':
			c.letters = true
		case b == ' ' && c.letters:
			_ = c.Conn.Close() // before anything is answered
			return 0, errHTTP
		default:
			c.settled = true
		}
	}
	return n, err
}
