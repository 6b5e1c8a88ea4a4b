package stdio

// Guard makes sure that servers do not outlive this process, even if it is
// killed and cannot stop them. Call it first in main, and in TestMain:
//
//	func main() {
//		stdio.Guard()
//		...
//	}
//
// With the first server, this executable is then started a second time. That
// second process holds nothing but a pipe to this one, and when the pipe closes
// it kills what is left of the servers and ends. In it, Guard is where the work
// is done, and does not return; so whatever runs before Guard, runs there too.
//
// Servers with limits or a sandbox are started by way of this executable as well:
// it confines itself in Guard, and then becomes the server.
//
// Guard also sees to it that files which this process inherited open are not
// inherited further.
//
// All of this is for Linux; elsewhere Guard does nothing. On Windows a
// job object does the work of the guard, and needs no call.
func Guard() { becomeGuard() }
