package dragoman

const (
	// DefaultMaxMessage is the largest message accepted where no other limit
	// is set, in bytes.
	DefaultMaxMessage = 16 << 20

	// MaxDepth is how deep arrays and objects may nest in a message. The
	// envelope is level 1.
	MaxDepth = 128

	// maxMessage is what spans of 32 bits can address.
	maxMessage = 1<<31 - 1
)

// Limits bounds what Parse accepts. The zero value holds the defaults.
type Limits struct {
	// MaxMessage is the largest message, in bytes. Zero means
	// DefaultMaxMessage; negative means 2 GiB, which no message may exceed.
	MaxMessage int
}

// Message returns the limit in force for one message, in bytes.
func (l Limits) Message() int {
	switch {
	case l.MaxMessage == 0:
		return DefaultMaxMessage
	case l.MaxMessage < 0 || l.MaxMessage > maxMessage:
		return maxMessage
	}
	return l.MaxMessage
}
