package serve

import (
	"net"
	"os"

	"github.com/dragoman-mcp/dragoman/internal/cli/term"
)

// notifyVariable names the socket of the service manager that started us. systemd sets it for
// units of Type=notify.
const notifyVariable = "NOTIFY_SOCKET"

// What a service manager is told, one assignment a line: see sd_notify(3).
const (
	notifyReady     = "READY=1"
	notifyReloading = "RELOADING=1" // until the next READY=1
	notifyStopping  = "STOPPING=1"
)

// notifyManager tells the service manager how we are. Without one it does nothing. One that does not
// listen ends us when it has waited for long enough, so the failure is logged and no more.
func notifyManager(v *term.Console, state string) {
	path := os.Getenv(notifyVariable)
	if path == "" {
		return
	}
	conn, err := net.Dial("unixgram", path) // a first @ stands for an abstract socket
	if err == nil {
		_, err = conn.Write([]byte(state))
		_ = conn.Close()
	}
	if err != nil {
		v.Log.Warn("service manager cannot be told of our state", "state", state, "error", err)
	}
}
