package stdio

import (
	"strings"
	"testing"
)

// What programs write when they do not come up, as they wrote it.
func TestCauseOfAnExitIsTheLineThatSaysIt(t *testing.T) {
	for _, test := range []struct{ name, stderr, want string }{
		{"nothing", "", ""},
		{"blank lines", "\n \n\t\n", ""},
		{"one line", "cannot open the database\n", "cannot open the database"},
		{"the last of lines that say nothing", "one\ntwo\nthree\n\n", "three"},
		{"a last word after the reason", "starting\nlicence has expired\nshutting down\nbye\n", "licence has expired"},
		{"npx, no such package", `npm warn Unknown user config "nodedir". This will stop working in the next major version of npm. See ` + "`npm help npmrc`" + ` for supported config options.
npm error code E404
npm error 404 Not Found - GET https://registry.npmjs.org/@no-such-scope-xyz%2fnever-published
npm error 404
npm error 404  The requested resource '@no-such-scope-xyz/never-published@*' could not be found or you do not have permission to access it.
npm error 404
npm error 404 Note that you can also install from a
npm error 404 tarball, folder, http url, or git url.
npm error A complete log of this run can be found in: /home/user/.npm/_logs/2026-11-17T01_22_55_061Z-debug-0.log
`, "npm error 404  The requested resource '@no-such-scope-xyz/never-published@*' could not be found or you do not have permission to access it."},
		{"npx, no such package, older", `npm ERR! code E404
npm ERR! 404 Not Found - GET https://registry.npmjs.org/never-published - Not found
npm ERR! 404
npm ERR! 404  'never-published@*' is not in this registry.
npm ERR! 404
npm ERR! 404 Note that you can also install from a
npm ERR! 404 tarball, folder, http url, or git url.

npm ERR! A complete log of this run can be found in:
npm ERR!     /home/user/.npm/_logs/2023-01-01T00_00_00_000Z-debug-0.log
`, "npm ERR! 404  'never-published@*' is not in this registry."},
		{"uvx, with the reasons of the reason", "error: Request failed after 3 retries in 8.6s\n" +
			"  cause: Failed to download `https://example.com/cpython-3.15.tar.gz`\n  cause: error sending request\n  cause: dns error\n" +
			"  cause: failed to lookup address information: Name or service not known\n",
			"error: Request failed after 3 retries in 8.6s: Failed to download `https://example.com/cpython-3.15.tar.gz`: failed to lookup address information: Name or service not known"},
		{"uvx, older, with one", "  × Failed to build\nerror: Failed to spawn: `no-such`\n  Caused by: No such file or directory (os error 2)\n", "error: Failed to spawn: `no-such`: No such file or directory (os error 2)"},
		{"npx, a package without a program", `npm error could not determine executable to run
npm error A complete log of this run can be found in: /home/user/.npm/_logs/x-debug-0.log
`, "npm error could not determine executable to run"},
		{"npx, no such host", `npm error code ENOTFOUND
npm error syscall getaddrinfo
npm error errno ENOTFOUND
npm error network request to http://registry.invalid/some-server failed, reason: getaddrinfo ENOTFOUND registry.invalid
npm error network This is a problem related to network connectivity.
npm error network In most cases you are behind a proxy or have bad network settings.
npm error network
npm error network If you are behind a proxy, please make sure that the 'proxy' config is set properly.  See: 'npm help config'
npm error A complete log of this run can be found in: /home/user/.npm/_logs/x-debug-0.log
`, "npm error network request to http://registry.invalid/some-server failed, reason: getaddrinfo ENOTFOUND registry.invalid"},
		{"npx, the proxy refuses", `npm error code ECONNREFUSED
npm error syscall connect
npm error errno ECONNREFUSED
npm error FetchError: request to https://registry.npmjs.org/some-server failed, reason: connect ECONNREFUSED 127.0.0.1:9
npm error     at ClientRequest.<anonymous> (/usr/lib/node_modules/npm/node_modules/minipass-fetch/lib/index.js:130:14)
npm error     at process.processTicksAndRejections (node:internal/process/task_queues:83:21) {
npm error   code: 'ECONNREFUSED',
npm error   errno: 'ECONNREFUSED',
npm error   syscall: 'connect',
npm error   type: 'system'
npm error }
npm error
npm error If you are behind a proxy, please make sure that the 'proxy' config is set properly.  See: 'npm help config'
npm error A complete log of this run can be found in: /home/user/.npm/_logs/x-debug-0.log
`, "npm error FetchError: request to https://registry.npmjs.org/some-server failed, reason: connect ECONNREFUSED 127.0.0.1:9"},
		{"npx, no permission", `npm error code EACCES
npm error syscall mkdir
npm error path /usr/local/lib/node_modules
npm error errno -13
npm error Error: EACCES: permission denied, mkdir '/usr/local/lib/node_modules'
npm error     at async mkdir (node:internal/fs/promises:858:10) {
npm error   errno: -13,
npm error   path: '/usr/local/lib/node_modules'
npm error }
npm error A complete log of this run can be found in: /home/user/.npm/_logs/x-debug-0.log
`, "npm error Error: EACCES: permission denied, mkdir '/usr/local/lib/node_modules'"},
		{"node, no such file", `node:internal/modules/cjs/loader:1210
  throw err;
  ^

Error: Cannot find module '/srv/nope/index.js'
    at Module._resolveFilename (node:internal/modules/cjs/loader:1207:15)
    at node:internal/main/run_main_module:28:49 {
  code: 'MODULE_NOT_FOUND',
  requireStack: []
}

Node.js v20.20.2
`, "Error: Cannot find module '/srv/nope/index.js'"},
		{"node, no such package", `node:internal/modules/esm/resolve:873
  throw new ERR_MODULE_NOT_FOUND(packageName, fileURLToPath(base), null);
        ^

Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'no-such-mod' imported from /srv/m.mjs
    at packageResolve (node:internal/modules/esm/resolve:873:9)
    at ModuleJob._link (node:internal/modules/esm/module_job:168:49) {
  code: 'ERR_MODULE_NOT_FOUND'
}

Node.js v20.20.2
`, "Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'no-such-mod' imported from /srv/m.mjs"},
		{"node, an error", `/srv/t.js:1
throw new Error('API_KEY is required')
^

Error: API_KEY is required
    at Object.<anonymous> (/srv/t.js:1:7)
    at Module._compile (node:internal/modules/cjs/loader:1521:14)

Node.js v20.20.2
`, "Error: API_KEY is required"},
		{"node, no such file to read", `node:fs:573
  return binding.open(
                 ^

Error: ENOENT: no such file or directory, open '/nope/x'
    at Object.openSync (node:fs:573:18)
    at Object.<anonymous> (/srv/e.js:1:15) {
  errno: -2,
  code: 'ENOENT',
  syscall: 'open',
  path: '/nope/x'
}

Node.js v20.20.2
`, "Error: ENOENT: no such file or directory, open '/nope/x'"},
		{"node, a mistake", `/srv/s.js:1
let x = ;
        ^

SyntaxError: Unexpected token ';'
    at wrapSafe (node:internal/modules/cjs/loader:1464:18)

Node.js v20.20.2
`, "SyntaxError: Unexpected token ';'"},
		{"python, no such module", "/usr/bin/python3: No module named no_such_mod\n", "/usr/bin/python3: No module named no_such_mod"},
		{"python, no such import", `Traceback (most recent call last):
  File "<string>", line 1, in <module>
ModuleNotFoundError: No module named 'no_such_mod'
`, "ModuleNotFoundError: No module named 'no_such_mod'"},
		{"python, a variable that is not set", `Traceback (most recent call last):
  File "<string>", line 2, in <module>
  File "<frozen os>", line 679, in __getitem__
KeyError: 'API_KEY'
`, "KeyError: 'API_KEY'"},
		{"python, one error after the other", `Traceback (most recent call last):
  File "<string>", line 2, in <module>
ZeroDivisionError: division by zero

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "<string>", line 3, in <module>
RuntimeError: cannot connect to db
`, "RuntimeError: cannot connect to db"},
		{"python, no such file", "/usr/bin/python3: can't open file '/srv/nope.py': [Errno 2] No such file or directory\n",
			"/usr/bin/python3: can't open file '/srv/nope.py': [Errno 2] No such file or directory"},
		{"uvx, no such package", `error: No solution found when resolving tool dependencies
  cause: Because no-such-package was not found in the package registry and you require no-such-package, we can conclude that your requirements are unsatisfiable.
`, "error: No solution found when resolving tool dependencies: Because no-such-package was not found in the package registry and you require no-such-package, we can conclude that your requirements are unsatisfiable."},
		{"uvx, older", `  × No solution found when resolving tool dependencies:
  ╰─▶ Because no-such-package was not found in the package registry and you
      require no-such-package, we can conclude that your requirements are
      unsatisfiable.
`, "Because no-such-package was not found in the package registry and you"},
		{"uvx, no such program", "Installed 1 package in 2ms\nAn executable named `nothere` is not provided by package `idna`.\nThe following executables are available:\n- idna\n",
			"An executable named `nothere` is not provided by package `idna`."},
		{"uvx, the index refuses", `error: Failed to fetch: http://127.0.0.1:9/simple/idna2x/
  cause: error sending request for url (http://127.0.0.1:9/simple/idna2x/)
  cause: client error (Connect)
  cause: tcp connect error
  cause: Connection refused (os error 111)
`, "error: Failed to fetch: http://127.0.0.1:9/simple/idna2x/: error sending request for url (http://127.0.0.1:9/simple/idna2x/): Connection refused (os error 111)"},
		{"docker, no daemon", `docker: Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?

Run 'docker run --help' for more information
`, "docker: Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?"},
		{"docker, no such image", `Unable to find image 'mcp/nope:latest' locally
docker: Error response from daemon: pull access denied for mcp/nope, repository does not exist or may require 'docker login'

Run 'docker run --help' for more information
`, "docker: Error response from daemon: pull access denied for mcp/nope, repository does not exist or may require 'docker login'"},
		{"sh, no such program", "sh: 1: exec: no-such-prog: not found\n", "sh: 1: exec: no-such-prog: not found"},
		{"go, a panic", `panic: no configuration

goroutine 1 [running]:
main.main()
	/srv/main.go:4 +0x25
exit status 2
`, "panic: no configuration"},
	} {
		if got := causeOf([]byte(test.stderr)); got != test.want {
			t.Errorf("%s: %q\nwant %q", test.name, got, test.want)
		}
	}
	if got := causeOf([]byte(strings.Repeat("é", maxCause))); len(got) > maxCause || !strings.HasPrefix(got, "éé") {
		t.Errorf("a long line has %d bytes: %.20q", len(got), got)
	}
}
