// Package admission bounds what the clients of a gateway may have and do: sessions, requests in
// flight, rates and bytes, of each session, of each caller and of all. It is the step behind the
// observation of an endpoint, and has no part in a request if nothing is limited. The limits
// of one server and its tools are those of package upstream.
//
//	admission.go  sessions and requests
//	notes.go      notifications, and requests without an id
//	bodies.go     bytes of requests that are read and in flight
package admission
