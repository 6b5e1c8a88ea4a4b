package authserver

// For tests of what is compared.
var (
	CheckRedirect = checkRedirect
	PlainRedirect = plainRedirect
)
