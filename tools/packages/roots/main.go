// Command roots prints the certificates of the authorities that Mozilla trusts, for the image
// of the program: they come from a pinned module, and not from the machine that makes the image.
package main

import (
	"encoding/pem"
	"os"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

func main() {
	for root := range bundle.Roots() {
		if root.Constraint != nil {
			continue // a file of certificates cannot say to what these are limited
		}
		if err := pem.Encode(os.Stdout, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
			os.Exit(1)
		}
	}
}
