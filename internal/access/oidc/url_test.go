package oidc_test

import (
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/access/oidc"
)

func TestCheckURL(t *testing.T) {
	for _, ok := range []string{
		"https://a.example.com", "https://a.example.com/", "https://a.example.com:8443/p?q=1&r=%20", "HTTPS://A.example.com/", "https://8.8.8.8/", "https://[2a00::1]:8443/", "https://a_b.example.com./x",
		"http://localhost", "http://LOCALHOST:3000/x", "http://app.localhost/", "http://127.0.0.1:1/", "http://127.9.9.9/", "http://[::1]:3000/", "https://1password.com/", "https://a.b1/", "https://10.0.0.1/",
	} {
		if u, err := oidc.CheckURL(ok); err != nil || u == nil {
			t.Errorf("%q: %v", ok, err)
		}
	}
	for bad, why := range map[string]string{
		"":                                    "is no URL",
		"javascript:alert(1)":                 "must be an https URL",
		"file:///etc/passwd":                  "must be an https URL",
		"--upload-pack=x":                     "must be an https URL",
		"http://a/$(touch m)":                 "characters",
		"http://a/":                           "must be an https URL",
		"http://10.0.0.1/":                    "must be an https URL",
		"http://localhost.example.com/":       "must be an https URL",
		"http://[::ffff:127.0.0.1]/":          "must be an https URL",
		"http://0/":                           "odd spelling",
		"http://0x7f000001/":                  "odd spelling",
		"https://0X7F.1/":                     "odd spelling",
		"https://017700000001/":               "odd spelling",
		"https://127.1/":                      "odd spelling",
		"https://127.0.0.01/":                 "odd spelling",
		"https://1.2.3.4.5/":                  "odd spelling",
		"https://a.example.0x1/":              "odd spelling",
		"https://2130706433./":                "odd spelling",
		"https://":                            "names no host",
		"https:///x":                          "names no host",
		"https:x":                             "names no host",
		"https://:443/":                       "host name",
		"https://./":                          "host name",
		"https://a..b/":                       "host name",
		"https://a$b/":                        "host name",
		"https://" + strings.Repeat("a", 300): "host name",
		"https://a:/":                         "port",
		"https://a:0/":                        "port",
		"https://a:65536/":                    "port",
		"https://[fe80::1%25eth0]/":           "zone",
		"https://u@a/":                        "user",
		"https://u:p@a/":                      "user",
		"https://a/#":                         "fragment",
		"https://a/x#y":                       "fragment",
		"https://a/\x00":                      "characters",
		"https://a/\n":                        "characters",
		"https://a/ b":                        "characters",
		`https://a\@b/`:                       "characters",
		"https://ä/":                          "characters",
		"https://a/" + strings.Repeat("x", 8<<10): "more than 8192 bytes",
	} {
		u, err := oidc.CheckURL(bad)
		if u != nil || err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%q: %v, %v, want an error with %q", bad[:min(len(bad), 60)], u, err, why)
		}
		if err != nil && (len(err.Error()) > 200 || strings.ContainsAny(err.Error(), "\x00\n")) {
			t.Errorf("the error is %q", err)
		}
	}
}
