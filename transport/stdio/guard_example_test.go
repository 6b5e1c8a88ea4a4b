package stdio_test

import "github.com/dragoman-mcp/dragoman/transport/stdio"

// A program that starts servers calls Guard before anything else.
func ExampleGuard() {
	main := func() {
		stdio.Guard()
		// … parse flags, start servers
	}
	main()
}
