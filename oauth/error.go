package oauth

import (
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A SignInError says that a request was not sent because a sign-in is needed first. It is
// a [protocol.Fault], and the JSON-RPC error −31007.
type SignInError struct {
	// Server is the host of the server, and Issuer its authorization server, if that is known.
	Server, Issuer string

	// Prompt is where to sign in, if a sign-in is in progress.
	Prompt Prompt

	// Reason is why there is none, or why it failed. It may be nil.
	Reason error

	// Advice is what else the user can do, such as to run a command.
	Advice string
}

// Error implements error. It does not repeat the page, which is for the user alone and not
// for logs.
func (e *SignInError) Error() string {
	text := "sign-in needed at " + e.Server
	if e.Issuer != "" {
		text += ", by " + e.Issuer
	}
	switch {
	case e.Reason != nil:
		text += ": " + e.Reason.Error()
	case e.Prompt.Code != "":
		text += ": open the page in data.url, enter " + e.Prompt.Code + ", and try again"
	case e.Prompt.URL != "":
		text += ": open the page in data.url, and try again"
	}
	if e.Advice != "" {
		text += "; " + e.Advice
	}
	return text
}

// Outcome implements [protocol.Fault].
func (e *SignInError) Outcome() string { return protocol.OutcomeNotSent }

// Unwrap returns what a client is told, and the reason.
func (e *SignInError) Unwrap() []error {
	told := protocol.SignInNeeded(e.Error(), e.Prompt.URL, e.Prompt.Code)
	if e.Reason == nil {
		return []error{told}
	}
	return []error{told, e.Reason}
}

// A notSent says of a request that there was no token for it. The server has not carried it
// out.
type notSent struct{ error }

// Outcome implements [protocol.Fault].
func (notSent) Outcome() string { return protocol.OutcomeNotSent }

func (e notSent) Unwrap() error { return e.error }

// An undiscovered says that how to sign in cannot be found out.
type undiscovered struct{ error }

func (e undiscovered) Unwrap() error { return e.error }
